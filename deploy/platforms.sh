#!/bin/sh
# Brings the packages of the pinned codex for other platforms than this one, for
# hosts of another architecture or operating system. `make platforms` calls it.
#
#   .tools/codex-platforms/<platform>/  as .tools/codex: bin/codex and its siblings
#
# Name platforms as arguments: linux-x64, linux-arm64 (both run with glibc and
# with musl), darwin-x64, darwin-arm64. npm ci enforces the digests in
# tools/package-lock.json, as for this platform. Nothing of a package is run here.
#
# Safe to run again and by two at once; takes a moment when all is there.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
root=$(dirname -- "$here")
trees=$root/.tools/codex-platforms
version=$(sed -n 's/.*"@openai\/codex": "\([0-9][0-9.]*\)".*/\1/p' "$here/tools/package.json")
scratch=

die() {
	printf 'platforms: %s\n' "$*" >&2
	exit 1
}
trap '[ -z "$scratch" ] || rm -rf -- "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# there tells whether a folder holds the pinned version. It is complete if it exists.
there() { [ -x "$trees/$1/bin/codex" ] && grep -q "\"version\": *\"$version\"" "$trees/$1/codex-package.json"; }

[ -n "$version" ] || die "$here/tools/package.json names no version of @openai/codex"
[ $# -gt 0 ] || die "name platforms, such as linux-arm64"
mkdir -p -- "$trees"
for platform; do
	case $platform in
	linux-x64 | linux-arm64 | darwin-x64 | darwin-arm64) ;;
	*) die "$platform: codex is brought to linux-x64, linux-arm64, darwin-x64 and darwin-arm64" ;;
	esac
	! there "$platform" || continue
	scratch=$(mktemp -d "$trees/install.XXXXXX")
	printf 'platforms: fetching codex %s for %s\n' "$version" "$platform"
	cp -- "$here/tools/package.json" "$here/tools/package-lock.json" "$scratch/"
	npm --prefix "$scratch" ci --ignore-scripts --include=optional --os="${platform%-*}" --cpu="${platform#*-}" \
		--no-audit --no-fund --loglevel=error >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; die "npm did not bring codex for $platform"; }
	found=
	for dir in "$scratch/node_modules/@openai/codex-$platform/vendor"/*/; do
		[ ! -f "$dir/bin/codex" ] || found=${dir%/}
	done
	[ -n "$found" ] || die "the npm package for $platform has no bin/codex where it used to be; its layout has changed"
	[ ! -e "$trees/$platform" ] || there "$platform" || mv -- "$trees/$platform" "$scratch/old"
	mv -T -- "$found" "$trees/$platform" 2>/dev/null || there "$platform" || die "cannot move codex into place at $trees/$platform"
	rm -rf -- "$scratch"
	scratch=
done
