#!/usr/bin/env bash
# Builds the release into dist/: static binaries, a bill of materials for each, and their checksums. Who builds the same commit with the same Go
# gets the same bytes; --check builds from a copy at another place and compares.
set -euo pipefail
cd "$(dirname "$0")/../.."

version=${VERSION:-$(git describe --tags --always 2>/dev/null || echo dev)}
platforms=(linux/amd64 linux/arm64)

# build FOLDER: builds the tree of the working directory into it.
build() {
	local platform name
	mkdir -p "$1"
	for platform in "${platforms[@]}"; do
		name=mediator-${platform//\//-}
		CGO_ENABLED=0 GOOS=${platform%/*} GOARCH=${platform#*/} GOFLAGS= "${GO:-go}" build -mod=readonly -trimpath -buildvcs=false \
			-ldflags="-s -w -buildid= -X github.com/actionproof/mediator/internal/program.version=$version" -o "$1/$name" ./cmd/mediator
		"${GO:-go}" run -C tools ./sbom "$(realpath "$1/$name")" >"$1/$name.cdx.json"
	done
	(cd "$1" && sha256sum mediator-* >SHA256SUMS)
}

if [ "${1:-}" = --check ]; then
	copy=$(mktemp -d)
	trap 'rm -rf "$copy"' EXIT
	platforms=(linux/amd64) # the other differs in nothing that a place could change
	build "$copy/first"
	git ls-files -z | xargs -0 cp --parents -t "$copy" --
	(cd "$copy" && build "$copy/second")
	diff -r "$copy/first" "$copy/second"
	echo "release: built at two places, the same bytes"
	exit
fi
rm -rf dist
build dist
cat dist/SHA256SUMS
