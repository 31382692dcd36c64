#!/usr/bin/env bash
# Installs the published agents and clients that make test-agents plays, at the versions of a lock file.
set -euo pipefail
cd "$(dirname "$0")/../.."

missing=()
want() { eval "$2" >/dev/null 2>&1 || missing+=("$1"); }
want wget                 'command -v wget'
want python3-aiohttp      '/usr/bin/python3 -c "import aiohttp"'
want default-jdk-headless 'command -v javac'
if [ ${#missing[@]} -gt 0 ]; then
	apt-get install -y --no-install-recommends "${missing[@]}"
fi

cd test/e2e/agents/testdata
if [ ! -e node_modules/.all ] || [ package-lock.json -nt node_modules/.all ]; then
	npm ci --no-audit --no-fund
	(cd node_modules/@anthropic-ai/claude-code && node install.cjs)
	touch node_modules/.ok node_modules/.all
fi
