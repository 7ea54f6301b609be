# The objects that no other host has: $1 the work folder, $2 a folder of ours,
# $3 the name of the pack, $4 how git names objects; standard input says which.
# Says how large it is. What is packed is not deflated, so that secrets are found
# in it and parts that are the same are stored once. Nothing is put in its place
# before it was read again: another attempt may make the same one beside us, and
# whoever made it may have died of it.
set -u
umask 077
cd -- "$1" || exit 1
if [ -f "$2/$3" ]; then
	cat >/dev/null
else
	tmp=$(work_in "$2") || exit 1
	trap 'rm -rf "$tmp"' EXIT
	g pack-objects -q --revs --stdout --compression=0 --window=0 --no-reuse-delta --no-reuse-object --threads=1 >"$tmp/new.pack" || exit 1
	if [ "$4" = sha1 ]; then format=; else format=--object-format=$4; fi
	(cd "$tmp" && g index-pack --threads=1 $format -o new.idx new.pack) >/dev/null || exit 1
	flush "$tmp/new.pack"
	mv -f "$tmp/new.pack" "$2/$3" || exit 1
fi
for old in "$2"/*.pack; do
	[ "$old" = "$2/$3" ] || rm -f "$old"
done
wc -c <"$2/$3" 2>/dev/null || exit 63
