# The objects that no other host has: $1 the work folder, $2 a folder of ours,
# $3 the name of the pack, $4 how many bytes on standard input name them. What
# is packed is not deflated, so that secrets are found in it and parts that
# are the same are stored once.
set -u
umask 077
cd -- "$1" || exit 1
if [ ! -f "$2/$3" ]; then
	rm -f "$2"/objects-*
	g pack-objects -q --revs --stdout --compression=0 --window=0 --no-reuse-delta --no-reuse-object --threads=1 >"$2/objects-tmp" || exit 1
	mv "$2/objects-tmp" "$2/$3" || exit 1
else
	cat >/dev/null
fi
