#!/usr/bin/env bash
# Installs what the tests need besides Go: curl, git, gh, gdb, strace, shells, PostgreSQL, promtool, Redis, Python's modules from Debian, Node's undici and the SDKs
# from the npm registry. It does nothing where all of it is there.
set -euo pipefail
cd "$(dirname "$0")/../.."

# Each package with a command that succeeds where it is installed.
need=()
want() { bash -c "$2" >/dev/null 2>&1 || need+=("$1"); }
want curl            'command -v curl'
want zsh             'command -v zsh'
want openssl         'command -v openssl'
want git             'command -v git'
want gh              'command -v gh'
want ca-certificates 'test -e /etc/ssl/certs/ca-certificates.crt'
want gcc             'command -v gcc'
want gdb             'command -v gdb'
want strace          'command -v strace'
want util-linux      'command -v setsid && command -v unshare && command -v nsenter'
want bsdutils        'command -v script'
want libc6-dev       'test -e /usr/include/stdlib.h'
want python3         'test -x /usr/bin/python3'
want python3-requests '/usr/bin/python3 -c "import requests"'
want python3-httpx   '/usr/bin/python3 -c "import httpx"'
for module in fastapi starlette uvicorn flask redis psycopg build wheel mypy cryptography; do # for packages/python
	want "python3-$module" "/usr/bin/python3 -c 'import $module'"
done
want python3-venv    '/usr/bin/python3 -c "import ensurepip"'
want chromium        'command -v chromium' # reads the page of posts open
want nginx-light     'test -x /usr/sbin/nginx'
want redis-server    'command -v redis-server'
want squid-openssl   'test -x /usr/lib/squid/digest_file_auth' # the proxy above
want softhsm2        'command -v softhsm2-util && test -e /usr/lib/softhsm/libsofthsm2.so'
want opensc          'command -v pkcs11-tool'
want nodejs          'command -v node'
want npm             'command -v npm'
want nftables        'test -x /usr/sbin/nft'
want jq              'command -v jq' # docs/verification.md uses it
want iproute2        'command -v ip || test -x /usr/sbin/ip'
want prometheus      'command -v promtool' # checks the alert rules
want postgresql      'ls /usr/lib/postgresql/*/bin/initdb' # the tests run clusters of their own

if [ ${#need[@]} -gt 0 ]; then
	if [ "$(id -u)" != 0 ]; then
		echo "setup: these Debian packages are missing: ${need[*]}; install them, or run make test as root" >&2
		exit 1
	fi
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq
	apt-get install -y -qq --no-install-recommends "${need[@]}" >/dev/null
fi

# Vectors that are read from the module cache (internal/strictjson/jsontestsuite_test.go).
go mod download github.com/nst/JSONTestSuite@v0.0.0-20241122125541-1ef36fa01286

modules() { # FOLDER, and flags of npm ci
	(
		cd "$1"
		if [ ! -e node_modules/.ok ] || [ package-lock.json -nt node_modules/.ok ]; then
			npm ci --no-audit --no-fund --ignore-scripts --loglevel=error "${@:2}"
			touch node_modules/.ok
		fi
	)
}
modules test/e2e/testdata/node
modules test/e2e/testdata/helia                    # reads exports as a node of IPFS; 127 MB
modules test/e2e/agents/testdata --omit=optional   # a few published agents; test/scripts/agents.sh installs all
modules packages/typescript                        # what it is built and tested with; it has no dependencies itself

# A real Vault server, which the tests of Vault custody start, and four of its plugins: see test/vaultserver/README.md.
# The receiver of the OpenTelemetry collector: test/collector/README.md.
build() { # NAME MODULE PACKAGE
	if [ ! -x "bin/$1" ] || [ "test/$2/go.sum" -nt "bin/$1" ]; then
		echo "setup: building $1 for the tests; this takes some minutes the first time" >&2
		(cd "test/$2" && CGO_ENABLED=0 "${GO:-go}" build -mod=readonly -buildvcs=false -tags minimal -trimpath -ldflags='-s -w' -o "../../bin/$1" "$3")
	fi
}
build collector collector .
build vault vaultserver .
for plugin in vault-plugin-auth-kubernetes vault-plugin-secrets-terraform; do
	build "$plugin" vaultserver "github.com/hashicorp/$plugin/cmd/$plugin"
done
build vault-plugin-secrets-aws vaultserver github.com/hashicorp/vault/builtin/logical/aws/cmd/aws
build vault-plugin-database-postgresql vaultserver \
	github.com/hashicorp/vault/plugins/database/postgresql/postgresql-database-plugin
