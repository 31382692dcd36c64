#!/usr/bin/env bash
# Makes what the test of the package needs: a Debian root in the cache, and two packages of this source in bin.
set -euo pipefail
cd "$(dirname "$0")/../../.."

missing=()
command -v debootstrap >/dev/null || missing+=(debootstrap)
command -v systemd-nspawn >/dev/null || missing+=(systemd-container)
if [ ${#missing[@]} -gt 0 ]; then
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq
	apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

suite=bookworm packages=systemd,systemd-sysv,dbus,ca-certificates,curl
cache=${XDG_CACHE_HOME:-$HOME/.cache}/mediator
root=$cache/debian-$suite-$(sha256sum <<<"$packages" | cut -c-16).tar
if [ ! -e "$root" ]; then
	echo "setup: making a Debian root; this takes some minutes the first time" >&2
	mkdir -p "$cache"
	work=$(mktemp -d -p "$cache")
	trap 'rm -rf --one-file-system "$work"' EXIT
	debootstrap --variant=minbase --include="$packages" "$suite" "$work/root" >"$work/log" || { tail "$work/log" >&2; exit 1; }
	rm -f "$work"/root/var/cache/apt/archives/*.deb
	tar --one-file-system -cf "$work/tar" -C "$work/root" .
	mv "$work/tar" "$root"
fi
mkdir -p bin
ln -sfn "$root" bin/debian-root.tar

for version in 1.0.0 1.0.1; do # an upgrade changes the program
	VERSION=v$version ./test/scripts/release.sh --package >/dev/null
	mv dist/mediator-linux-*.deb "bin/mediator-$version.deb"
done
