# Reads files of the tree $1 whose names, "./path" and NUL, come on the input,
# while they come. $2 is a mark; a tar that cannot read a list of names is given
# $3 at a time.
#
# First a line: what tar it is. A tar stream, or several, with a line behind
# each: the mark, tar's status, how many names it was given. Then a line with the
# mark, "after" and what find it is, and the same names once more as tree_list.sh
# lists them: what sorts them is written to by tee and held open by tar, so that
# it has all names, and an end, when the last tar has ended. All of it is sent by
# send, see treePackScript.
LC_ALL=C
export LC_ALL
[ -d "$1" ] || { echo "$1: no such folder" >&2; exit 94; }
cd -- "$1/" || exit 1
m=$2
lacks() { echo "fairlead-fence: lacks $1" >&2; exit 96; }
[ -e /dev/fd/0 ] || lacks "/dev/fd"
how=gnu
if find -files0-from /dev/null -maxdepth 0 2>/dev/null; then # GNU, since 4.9
	look() { find -files0-from - -maxdepth 0 -printf "%p//. $f\0"; }
elif find . -maxdepth 0 -printf "" 2>/dev/null; then
	look() { xargs -0 -r sh -c 'exec find "$@" -maxdepth 0 -printf "%p//. $f\0"' sh; }
else
	how=stat
	look() { xargs -0 -r stat -c "//$m%f %s %Y %Z %i %h %b %D/%y/%z/%N"; }
fi
f='%y %m %s %T@ %C@ %i %n %b %D %l'
export f
[ $how = gnu ] && end='///%s\000' || end="//$m/%s\n"
case $(tar --version 2>/dev/null) in
*GNU*)
	tar=gnu
	# tar takes a file without blocks for one of zeros, unread, and some file
	# systems count no blocks.
	case $(stat -f -c %T . 2>/dev/null) in
	ext2/ext3 | xfs | btrfs | f2fs | tmpfs | overlayfs) holes=-S ;;
	*) holes= ;;
	esac
	pack() {
		tar -cf - --format=gnu $holes --no-recursion --numeric-owner --owner=0 --group=0 --no-unquote -b 64 --null -T - >&5
		echo "$m $? -1" >&5
	}
	;;
*)
	{ sort -z && xargs -0 -r true; } </dev/null >/dev/null 2>&1 || lacks "sort -z or xargs -0"
	tar=other
	flat=
	case $(tar --help 2>&1) in *--no-recursion*) flat=--no-recursion ;; esac
	export m flat
	pack() { xargs -0 -r -n "$1" sh -c 'tar -cf - $flat -- "$@" >&5; echo "$m $? $#" >&5' sh; }
	;;
esac
# What went away is not worth a word: the last of what is said is kept, and may
# be that a disk failed.
files() {
	exec 5>&1
	echo $tar
	ended=$({
		{
			{
				tee /dev/fd/3
				echo "tee $?" >&4
			} | {
				pack "$1"
				echo "$m after $how" >&5
			}
		} 3>&1 >/dev/null | {
			sort -z
			echo "sort $?" >&4
		} | {
			look 2>&1 >&5
			echo "look $?" >&4
		} | sed '/: No such file or directory$/d' >&2
	} 4>&1)
	printf "$end" "$(echo $ended)"
}
send files "$3"
