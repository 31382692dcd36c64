#!/usr/bin/env bash
# Builds the binary exactly as the Dockerfile does and runs it as the image would: statically linked, as a user without rights.
set -euo pipefail
cd "$(dirname "$0")/../.."

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
build=$(sed -n 's/^RUN \(CGO_ENABLED=0 .*\)$/\1/p' Dockerfile)
[ -n "$build" ] || { echo "image-binary: the Dockerfile has no build line" >&2; exit 1; }
bash -c "${build//\/out\/mediator/$dir/mediator}"

if readelf -l "$dir/mediator" 2>/dev/null | grep -q INTERP; then
	echo "image-binary: the binary is not static" >&2
	exit 1
fi
chmod 755 "$dir" "$dir/mediator"
run=("$dir/mediator")
[ "$(id -u)" != 0 ] || run=(setpriv --reuid=65532 --regid=65532 --clear-groups "$dir/mediator")
env -i "${run[@]}" --version
env -i "${run[@]}" help >/dev/null
echo "image-binary: static, runs as uid 65532 with an empty environment"
