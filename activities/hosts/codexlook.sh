# Compares the files of a codex package on the host with what was put there. It runs
# before anything of the package does.
# $1 folder of the package, $2 SHA-256 of the list of its files, $3 what stat said of
# them when the list was last right, or empty
#
# Only files that changed are read: a change moves a file's change time, which
# nobody but root can set. What changed in the last seconds may change again
# within the same tick, and is read the next time, too.
PATH=/usr/bin:/bin:/usr/sbin:/sbin:/run/current-system/sw/bin:/usr/local/bin:/opt/homebrew/bin:$PATH LC_ALL=C TZ=UTC0
export PATH LC_ALL TZ
for p in find sort head date; do command -v $p >/dev/null 2>&1 || { echo "the host has no $p" >&2; exit 96; }; done
cd -P -- "$1" 2>/dev/null || { echo "changed"; exit 95; }
files() { find . -path ./codex-resources/voice -prune -o ! -type d ! -path ./stamp "$@"; }
began=$(date +%s)
seen=$(files -exec stat -c '%d %i %s %f %Z %z %n' {} + 2>/dev/null | sort)
[ -z "$3" ] || [ "$seen" != "$3" ] || { echo "same"; exit 0; }
# Only openssl uses the processor's own instructions: it takes a sixth of the time.
if case $(OPENSSL_CONF=/dev/null openssl dgst -sha256 -r </dev/null 2>/dev/null) in e3b0c44298fc1c14*) ;; *) false ;; esac; then
	sum() { OPENSSL_CONF=/dev/null openssl dgst -sha256 -r; }
elif command -v sha256sum >/dev/null 2>&1; then sum() { sha256sum; }
elif command -v shasum >/dev/null 2>&1; then sum() { shasum -a 256; }
elif command -v busybox >/dev/null 2>&1 && busybox sha256sum </dev/null >/dev/null 2>&1; then sum() { busybox sha256sum; }
elif perl -MDigest::SHA -e 1 2>/dev/null; then sum() { perl -MDigest::SHA -e 'binmode STDIN; print Digest::SHA->new(256)->addfile(*STDIN)->hexdigest'; }
else
	echo "the host has no sha256sum, shasum, openssl, busybox or perl" >&2
	exit 96
fi
list=$(files -print | sort | head -n 1000 | while IFS= read -r f; do
	if [ -f "$f" ] && [ ! -h "$f" ]; then
		s=$(sum <"$f" 2>/dev/null)
		echo "${s%% *}  $f"
	else
		echo "other  $f"
	fi
done)
now=$(printf '%s\n' "$list" | sum)
if [ "${now%% *}" != "$2" ]; then
	echo "changed"
	printf '%s\n' "$list" | head -n 200
	exit 95
fi
echo "right"
newest=0
while read -r d i s m c x; do
	case $c in '' | *[!0-9]*) newest=$began ;; *) [ "$c" -le "$newest" ] || newest=$c ;; esac
done <<EOF
$seen
EOF
[ "$newest" -ge $((began - 2)) ] || printf '%s\n' "$seen"
exit 0
