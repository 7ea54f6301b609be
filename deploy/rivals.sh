#!/bin/sh
# Brings the Debian programs that `go run ./internal/lab/bench -only snapshots`
# measures beside ours. Safe to run again; needs root where something is missing.
set -eu

missing=
while read -r program package; do
	PATH=$PATH:/usr/sbin:/sbin command -v "$program" >/dev/null 2>&1 || missing="$missing $package"
done <<-EOT
	rsync rsync
	restic restic
	zstd zstd
	tar tar
	iptables iptables
EOT
[ -n "$missing" ] || exit 0
command -v apt-get >/dev/null 2>&1 || {
	echo "rivals: missing:$missing (Debian's package names); this system has no apt-get, install them by its own means" >&2
	exit 1
}
[ "$(id -u)" = 0 ] || {
	echo "rivals: missing:$missing; install them as root: apt-get update && apt-get install -y --no-install-recommends$missing" >&2
	exit 1
}
export DEBIAN_FRONTEND=noninteractive
apt-get -q -o DPkg::Lock::Timeout=300 update
# shellcheck disable=SC2086 # one word for each package
apt-get -q -o DPkg::Lock::Timeout=300 install -y --no-install-recommends $missing
