#!/usr/bin/env bash
# Measures the mediator and writes tools/bench/RESULTS.md. Flags go to the program.
set -euo pipefail
cd "$(dirname "$0")/../.."

if ! command -v mitmdump >/dev/null || ! command -v strace >/dev/null; then
	echo "bench: installing mitmproxy, to compare with, and strace" >&2
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq mitmproxy strace >/dev/null
fi
[ -x bin/vault ] || ./test/scripts/setup.sh
"${GO:-go}" build -C tools -o ../bin/bench ./bench
"${GO:-go}" test -c -o bin/bench-log ./translog
"${GO:-go}" test -c -o bin/bench-ledger ./ledger/sqlite
exec bin/bench "$@"
