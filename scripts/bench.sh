#!/usr/bin/env bash
# Measures the mediator beside its peers and writes bench/results.json and bench/RESULTS.md. Flags go to the program: see go run ./bench -h.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v mitmdump >/dev/null; then
	echo "bench: installing mitmproxy, to compare with" >&2
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq mitmproxy >/dev/null
fi
[ -x bin/vault ] || ./scripts/setup.sh
exec "${GO:-go}" run ./bench "$@"
