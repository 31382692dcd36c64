#!/usr/bin/env bash
# Measures the mediator beside its peers and writes tools/bench/RESULTS.md. Flags go to the program.
set -euo pipefail
cd "$(dirname "$0")/../.."

if ! command -v mitmdump >/dev/null || ! command -v squid >/dev/null; then
	echo "bench: installing mitmproxy and squid-openssl, to compare with" >&2
	had_squid=$(command -v squid || true)
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq mitmproxy squid-openssl >/dev/null
	if [ -z "$had_squid" ] && [ -d /run/systemd/system ]; then
		systemctl disable --quiet --now squid # its package starts it as a service
	fi
fi
[ -x bin/vault ] || ./test/scripts/setup.sh
"${GO:-go}" build -C tools -o ../bin/bench ./bench
exec bin/bench "$@"
