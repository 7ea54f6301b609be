# Unpacks its input, a tar stream, into $1, a fresh folder beside $2. It does not
# put it in place: a stream that was cut between two entries looks whole. $3 is
# the tree's id, or nothing.
#
# First a line: "placed" if the tree of this id is in place already, else what
# tar there is and how the input is to be packed (see treeTakeScript). What
# former calls for the same place left is removed.
LC_ALL=C
export LC_ALL
umask 077
d=${2%/*}/ b=${2##*/}
inode() { i=$(ls -di -- "$1" 2>/dev/null) && i=${i#"${i%%[0-9]*}"} && i=${i%%[!0-9]*}; }
wipe() {
	rm -rf -- "$@" 2>/dev/null && return
	find "$@" -type d -exec chmod u+rwx {} \; 2>/dev/null
	rm -rf -- "$@"
}
mkdir -p -- "$d" || exit 1
held=x
[ ! -d "$2" ] || [ -L "$2" ] || held=$(ls -A -- "$2/" && echo x) || exit 1
held=${held%x}
# An empty folder may be another one that got the number of the one that was.
if [ "$3" ] && [ "$held" ] && [ -e "$d.fl-placed-$b" ] && inode "$2" && [ "$(cat "$d.fl-placed-$b")" = "$3 $i" ]; then
	echo placed
	exit
fi
if [ "$held" ] || [ -L "$2" ] || { [ -e "$2" ] && [ ! -d "$2" ]; }; then
	echo "$2: something is there" >&2
	exit 95
fi
for old in "$d.fl-tree-$b."*; do
	[ ! -d "$old" ] || wipe "$old"
done
mkdir -- "$1" || exit 1
trap 'exit 1' HUP INT TERM PIPE
case $(tar --version 2>/dev/null) in
*GNU*)
	echo "gnu $how"
	take tar -xpf - --no-same-owner --delay-directory-restore --warning=no-timestamp -C "$1"
	;;
*)
	echo "other $how"
	take tar -xpof - -C "$1"
	;;
esac || {
	r=$?
	wipe "$1"
	exit $r
}
