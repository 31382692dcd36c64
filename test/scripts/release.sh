#!/usr/bin/env bash
# Builds the release into dist/: static binaries, a bill of materials and a Debian package for each, and their checksums. The same commit and Go
# give the same bytes; --check builds from a copy at another place and compares. --package builds for this machine's platform alone.
set -euo pipefail
cd "$(dirname "$0")/../.."

version=${VERSION:-$(git describe --tags --always 2>/dev/null || echo dev)}
platforms=(linux/amd64 linux/arm64)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 0)
deb=${version#v} # dpkg wants a number first; commits without a tag follow each other
[[ $deb =~ ^[0-9]+\. ]] || deb=0~$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S).$deb
export SOURCE_DATE_EPOCH

# build FOLDER: builds the tree of the working directory into it.
build() {
	local platform name
	mkdir -p "$1"
	for platform in "${platforms[@]}"; do
		name=mediator-${platform//\//-}
		CGO_ENABLED=0 GOOS=${platform%/*} GOARCH=${platform#*/} GOFLAGS= "${GO:-go}" build -mod=readonly -trimpath -buildvcs=false \
			-ldflags="-s -w -buildid= -X github.com/actionproof/mediator/internal/program.version=$version" -o "$1/$name" ./cmd/mediator
		"${GO:-go}" run -C tools ./sbom "$(realpath "$1/$name")" >"$1/$name.cdx.json"
		BINARY=$1/$name ARCH=${platform#*/} VERSION=$deb "$nfpm" package --config deploy/debian/nfpm.yaml --packager deb \
			--target "$1/$name.deb" >/dev/null
	done
	(cd "$1" && sha256sum mediator-* >SHA256SUMS)
}

"${GO:-go}" build -C tools -o ../bin/nfpm github.com/goreleaser/nfpm/v2/cmd/nfpm
nfpm=$PWD/bin/nfpm

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
[ "${1:-}" != --package ] || platforms=("linux/$("${GO:-go}" env GOARCH)")
rm -rf dist
build dist
cat dist/SHA256SUMS
