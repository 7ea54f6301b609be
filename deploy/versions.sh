#!/bin/sh
# Brings older versions of codex, for the tests that try each of them: whether
# it can keep a credential from the agent's commands (seeds), and how its
# protocol differs (conversation). `make versions` calls it.
#
#   .tools/codex-versions/<version>/  as .tools/codex: bin/codex and its siblings
#
# The versions are a spread over those that are supported (see package.json in
# tools/versions): the oldest, 0.130.0 and 0.140.0 and 0.155.1 for the protocol,
# the oldest with permission profiles by name, the newest whose profiles root's
# commands can undo, the one after. npm ci enforces the digests in the lock,
# which names no registry. Only what is missing is fetched, and only the package
# of this platform. (0.140.0 was not published for arm64.)
#
# Safe to run again and by two at once; takes a moment when all is there.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
root=$(dirname -- "$here")
trees=$root/.tools/codex-versions
scratch=

die() {
	printf 'versions: %s\n' "$*" >&2
	exit 1
}
trap '[ -z "$scratch" ] || rm -rf -- "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

case $(uname -s)-$(uname -m) in
Linux-x86_64 | Linux-amd64) cpu=x64 ;;
Linux-aarch64 | Linux-arm64) cpu=arm64 ;;
*) die "codex is installed for Linux on x86_64 and aarch64 only" ;;
esac

works() { [ "$("$trees/$1/bin/codex" --version 2>/dev/null)" = "codex-cli $1" ]; }

versions=$(sed -n "s/.*\"codex-\([0-9][0-9.]*\)-linux-$cpu\".*/\1/p" "$here/tools/versions/package.json")
[ -n "$versions" ] || die "tools/versions/package.json names no version for linux-$cpu"
missing=
for v in $versions; do
	works "$v" || missing="$missing $v"
done
[ -n "$missing" ] || exit 0

mkdir -p -- "$trees"
scratch=$(mktemp -d "$trees/install.XXXXXX")
printf 'versions: fetching codex%s for linux-%s\n' "$missing" "$cpu"
# What is there is not fetched again: package.json and lock without it.
node -e '
const fs = require("fs"), [from, to, cpu, ...missing] = process.argv.slice(1)
const want = new Set(missing.map((v) => `codex-${v}-linux-${cpu}`))
const only = (o, prefix) => { for (const k of Object.keys(o)) if (k !== "" && !want.has(k.slice(prefix.length))) delete o[k] }
const read = (name) => JSON.parse(fs.readFileSync(`${from}/${name}`))
const pkg = read("package.json"), lock = read("package-lock.json")
only(pkg.optionalDependencies, "")
only(lock.packages[""].optionalDependencies, "")
only(lock.packages, "node_modules/")
fs.writeFileSync(`${to}/package.json`, JSON.stringify(pkg))
fs.writeFileSync(`${to}/package-lock.json`, JSON.stringify(lock))
' "$here/tools/versions" "$scratch" "$cpu" $missing
(cd "$scratch" && npm ci --ignore-scripts --include=optional --no-audit --no-fund --loglevel=error) >"$scratch/log" 2>&1 || {
	cat "$scratch/log" >&2
	die "npm ci failed; what it printed is above"
}
for v in $missing; do
	set -- "$scratch/node_modules/codex-$v-linux-$cpu/vendor"/*/
	tree=${1%/}
	if [ ! -x "$tree/bin/codex" ] && [ -x "$tree/codex/codex" ]; then
		# The layout before 0.131, as today's: Fairlead brings only that one.
		mv -- "$tree/codex" "$tree/bin"
		mv -- "$tree/path" "$tree/codex-path"
		printf '{"version":"%s","target":"%s"}\n' "$v" "${tree##*/}" >"$tree/codex-package.json"
	fi
	[ -x "$tree/bin/codex" ] || die "the npm package of codex $v has no bin/codex"
	# The rename is the moment at which the tree exists.
	if [ -e "$trees/$v" ] && ! works "$v"; then
		mv -- "$trees/$v" "$scratch/broken-$v"
	fi
	mv -T -- "$tree" "$trees/$v" 2>/dev/null || works "$v" || die "cannot move codex $v into place"
	works "$v" || die "$trees/$v/bin/codex does not run, or is not version $v"
done
