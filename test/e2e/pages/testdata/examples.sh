cp "$CONFIGS"/*.yaml . && mkdir secrets
secret() { for f in $(grep -oh 'secrets/[a-z-]*' $1 | sort -u); do
	head -c 30 /dev/urandom | base64 >$f && chmod 0400 $f && chown $2 $f
done; }
secret mediator.yaml mediator-sidecar
secret trigger.yaml mediator-trigger
