export CANARY=canary-$$-seen
env
for f in /proc/[0-9]*/environ /proc/[0-9]*/cmdline /proc/[0-9]*/maps /proc/[0-9]*/mem; do cat "$f"; done 2>/dev/null
find "$1" -type f -exec cat {} + 2>/dev/null
find "$1" -type s 2>/dev/null
curl -sv -H 'Content-Type: application/json' -d '{"body":"x"}' "https://$2/posts" 2>&1
curl -sv -H 'Content-Type: application/json' -H 'Authorization: mine' -d '{"body":"x"}' "https://$2/posts?a=b" 2>&1
curl -sv "https://$2/read" 2>&1
for path in v1/event v1/event/next v1/posts v1/roles v1/looks metrics debug/pprof/cmdline debug/pprof/heap
do curl -sv -m 2 "http://mediator.internal/$path" 2>&1; done
