#!/bin/sh
# Brings the programs that Fairlead's demo and tests run against: the pinned
# real codex and a handful of Debian programs. `make tools` calls it.
#
#   .tools/codex-<version>/  codex's platform package as published: bin/codex,
#                            bin/codex-code-mode-host, codex-path/rg,
#                            codex-resources/bwrap, codex-package.json.
#                            codex finds its siblings relative to its own
#                            binary, so the tree moves only as a whole.
#   .tools/codex             a link to it
#   .tools/prometheus/       promtool, from Debian's package of Prometheus
#   .tools/clients/          what makes clients of the HTTP API, for a test:
#                            oapi-codegen, and node_modules for TypeScript
#
# The version is pinned in tools/package.json and its digest in
# tools/package-lock.json, which npm ci enforces. The lock names no registry:
# the one that npm is set up for is asked. tools/clients and tools/oapi pin the
# generators of clients likewise, the latter by go.sum.
#
# Safe to run again and by two at once; takes a moment when all is there.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
root=$(dirname -- "$here")
tools=$root/.tools
version=$(sed -n 's/.*"@openai\/codex": "\([0-9][0-9.]*\)".*/\1/p' "$here/tools/package.json")
tree=$tools/codex-$version
scratch=

say() { printf 'tools: %s\n' "$*"; }
die() {
	printf 'tools: %s\n' "$*" >&2
	exit 1
}
cleanup() { [ -z "$scratch" ] || rm -rf -- "$scratch"; }
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Daemons live in sbin, which is not on every user's PATH.
have() { PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null 2>&1; }

# run does a noisy step quietly and shows what it printed only if it fails.
run() {
	"$@" >"$scratch/log" 2>&1 && return
	cat "$scratch/log" >&2
	die "'$*' failed; what it printed is above"
}

# programs installs the Debian packages whose programs are missing.
programs() {
	missing=
	while read -r program package; do
		have "$program" || missing="$missing $package"
	done <<-EOF
		sshd openssh-server
		ssh openssh-client
		ansible-inventory ansible-core
		ip iproute2
		iptables iptables
		busybox busybox-static
		fish fish
		tcsh tcsh
		mksh mksh
		tmux tmux
		ps procps
		systemd-analyze systemd
		npm npm
		chromium chromium
	EOF
	# Debian keeps PostgreSQL's programs away from PATH.
	set -- /usr/lib/postgresql/*/bin/postgres
	[ -x "$1" ] || missing="$missing postgresql"
	[ -n "$missing" ] || return 0
	have apt-get || die "missing:$missing (Debian's package names); this system has no apt-get, install them by its own means"
	[ "$(id -u)" = 0 ] || die "missing:$missing; install them as root: apt-get update && apt-get install -y --no-install-recommends$missing"

	say "installing$missing"
	case $missing in
	*openssh-server*) say "note: on a machine with systemd, Debian's openssh-server also starts an sshd on port 22; Fairlead does not need that one" ;;
	esac
	case $missing in
	*postgresql*) say "note: Debian's postgresql may also start a server on port 5432; Fairlead does not need that one" ;;
	esac
	export DEBIAN_FRONTEND=noninteractive
	# A fresh machine has no package lists, or stale ones.
	run apt-get -o DPkg::Lock::Timeout=300 update
	# shellcheck disable=SC2086 # one word for each package
	run apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends $missing
}

# works tells whether the tree holds a codex of the pinned version that runs.
works() {
	[ -x "$tree/bin/codex-code-mode-host" ] &&
		[ "$("$tree/bin/codex" --version 2>/dev/null)" = "codex-cli $version" ]
}

codex() {
	if ! works; then
		[ "$(uname -s)" = Linux ] || die "codex is installed for Linux only, this is $(uname -s)"
		case $(uname -m) in
		x86_64 | amd64) cpu=x64 ;;
		aarch64 | arm64) cpu=arm64 ;;
		*) die "there is no codex for $(uname -m); x86_64 and aarch64 are served" ;;
		esac

		say "fetching codex $version for linux-$cpu"
		cp -- "$here/tools/package.json" "$here/tools/package-lock.json" "$scratch/"
		run npm --prefix "$scratch" ci --ignore-scripts --include=optional \
			--no-audit --no-fund --loglevel=error
		set -- "$scratch/node_modules/@openai/codex-linux-$cpu/vendor"/*/
		[ -x "$1/bin/codex" ] || die "the npm package for linux-$cpu has no bin/codex where it used to be; its layout has changed"

		# The rename is the moment at which the tree exists: it is never
		# seen half unpacked, and a second installer finds it there.
		if [ -e "$tree" ] && ! works; then
			mv -- "$tree" "$scratch/broken"
		fi
		mv -T -- "${1%/}" "$tree" 2>/dev/null || works ||
			die "cannot move codex into place at $tree"
		works || die "$tree/bin/codex does not run, or is not version $version"
	fi
	[ "$(readlink "$tools/codex" || :)" = "codex-$version" ] || {
		ln -s "codex-$version" "$scratch/link"
		mv -T -- "$scratch/link" "$tools/codex"
	}
}

# pins is a digest of what pins the generators.
pins() { cat -- "$here/tools/clients/package-lock.json" "$here/tools/oapi/go.mod" "$here/tools/oapi/go.sum" | sha256sum | cut -d' ' -f1; }

# generators tells whether those of the pinned versions are there.
generators() {
	[ -x "$tools/clients/oapi-codegen" ] && [ "$(cat -- "$tools/clients/pins" 2>/dev/null)" = "$(pins)" ]
}

clients() {
	generators && return
	say "fetching the generators of clients"
	mkdir -- "$scratch/clients"
	cp -- "$here/tools/clients/package.json" "$here/tools/clients/package-lock.json" "$scratch/clients/"
	run npm --prefix "$scratch/clients" ci --ignore-scripts --no-audit --no-fund --loglevel=error
	run env GOFLAGS=-mod=readonly "${GO:-go}" -C "$here/tools/oapi" build -o "$scratch/clients/oapi-codegen" github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen
	pins >"$scratch/clients/pins"
	if [ -e "$tools/clients" ] && ! generators; then
		mv -- "$tools/clients" "$scratch/old-clients"
	fi
	mv -T -- "$scratch/clients" "$tools/clients" 2>/dev/null || generators ||
		die "cannot move the generators of clients into place at $tools/clients"
}

# promtool is taken out of Debian's package, which would also start a server if it were installed.
prometheus() {
	"$tools/prometheus/promtool" --version >/dev/null 2>&1 && return
	mkdir -- "$scratch/prometheus"
	if have promtool; then
		ln -s "$(PATH=$PATH:/usr/sbin:/sbin command -v promtool)" "$scratch/prometheus/promtool"
	else
		have apt-get || die "missing: promtool, of Prometheus; this system has no apt-get, install it by its own means"
		say "fetching promtool"
		(
			cd -- "$scratch/prometheus"
			apt-get -q download prometheus >"$scratch/log" 2>&1 && exit
			[ "$(id -u)" = 0 ] || exit 1
			# A fresh machine has no package lists, or stale ones.
			apt-get -q -o DPkg::Lock::Timeout=300 update >"$scratch/log" 2>&1
			apt-get -q download prometheus >"$scratch/log" 2>&1
		) || {
			cat "$scratch/log" >&2
			die "Debian's package prometheus cannot be fetched; what was printed is above"
		}
		run dpkg-deb -x "$scratch/prometheus"/prometheus_*.deb "$scratch/prometheus/x"
		mv -- "$scratch/prometheus/x/usr/bin/promtool" "$scratch/prometheus/promtool"
		rm -rf -- "$scratch/prometheus/x" "$scratch/prometheus"/*.deb
	fi
	if [ -e "$tools/prometheus" ]; then
		mv -- "$tools/prometheus" "$scratch/old-prometheus"
	fi
	mv -T -- "$scratch/prometheus" "$tools/prometheus" 2>/dev/null || :
	"$tools/prometheus/promtool" --version >/dev/null 2>&1 ||
		die "cannot move promtool into place at $tools/prometheus"
}

[ -n "$version" ] || die "$here/tools/package.json names no version of @openai/codex"
mkdir -p -- "$tools"
scratch=$(mktemp -d "$tools/install.XXXXXX")
programs
codex
clients
prometheus
say "codex $version, sshd and the other programs are there"
