# Puts the unpacked tree $1 in its place $2, where nothing is yet, and keeps its id
# $3 beside it. Where tar cannot do it itself ($4) its input is a tar stream
# with modes and times of folders, set when all that changes them is done. $5 is
# what takes the fence's lock, if there is one.
LC_ALL=C
export LC_ALL
d=${2%/*}/ b=${2##*/}
inode() { i=$(ls -di -- "$1" 2>/dev/null) && i=${i#"${i%%[0-9]*}"} && i=${i%%[!0-9]*}; }
wipe() {
	rm -rf -- "$@" 2>/dev/null && return
	find "$@" -type d -exec chmod u+rwx {} \; 2>/dev/null
	rm -rf -- "$@"
}
trap 'wipe "$1"' EXIT
[ "$4" = gnu ] || tar -xpof - -C "$1" || exit
eval "$5"
if [ -L "$2" ] || [ -e "$2" ] && ! rmdir -- "$2" 2>/dev/null; then
	echo "$2: something is there" >&2
	exit 95
fi
if [ "$3" ]; then
	inode "$1" && echo "$3 $i" >"$d.fl-placed-$b" || exit 1
fi
mv -- "$1" "$2" || exit 1
[ -z "$5" ] || fl_unlock
