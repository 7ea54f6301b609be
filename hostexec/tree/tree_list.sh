# Lists the tree $1, sorted by the bytes of path and "//". $2 is a mark. What
# follows are tests of find that say what is not entered.
#
# First a line: how it is told, the host's clock, and the tree's folder itself.
# Then with GNU find records that end with NUL, "path//…", and "///status" among
# them, which find ended with, and behind them, which sort did. Other finds cannot
# tell much and stat cannot print NUL: then first come "./path//x" (pruned) and
# "./path//r" (unreadable) as they are found, after them "//fstatus", each with a
# NUL behind it, and then lines that begin with the mark, and at last the mark and
# "/sort status look status". No path holds "//", and what a symlink says may hold
# anything but the mark. All of it is sent by send, see treePackScript.
LC_ALL=C
export LC_ALL
[ -d "$1" ] || { echo "$1: no such folder" >&2; exit 94; }
cd -- "$1/" || exit 1
m=$2
shift 2
now=$(date +%s.%N)
lacks() { echo "fairlead-fence: lacks $1" >&2; exit 96; }
how=.
[ -r . ] && [ -x . ] || how=r
f=' %y %m %s %T@ %C@ %i %n %b %D %l'
found() {
	echo "gnu $now $root"
	[ $# -eq 0 ] || set -- \( "$@" \) -printf "%P//x$f\\0" -prune -o
	{
		find . -mindepth 1 "$@" -type d ! \( -readable -executable \) -printf "%P//r$f\\0" -o -printf "%P//.$f\\0"
		printf '///%s\0' $?
	} | sort -z
	printf '///%s\0' $?
}
if root=$(find . -maxdepth 0 -printf "//$how$f" 2>/dev/null) && [ "$root" ]; then
	send found "$@"
	exit
fi
f="$m%f %s %Y %Z %i %h %b %D/%y/%z/%N"
{ sort -z && xargs -0 -r true; } </dev/null >/dev/null 2>&1 || lacks "a find that can print what it finds, and sort -z or xargs -0 that would help"
root=$(stat -c "$f" . 2>/dev/null) && [ "$root" ] || lacks "a find that can print what it finds, and a stat that could"
names() {
	echo "stat $now $root"
	exec 5>&1
	[ $how = . ] || printf './/r\000'
	[ $# -eq 0 ] || set -- \( "$@" \) -prune -print0 -exec sh -c 'printf "%s//x\000" "$@" >&5' sh {} + -o
	ended=$({
		{
			find . -mindepth 1 "$@" -print0 -type d -exec sh -c 'for d; do [ -r "$d" ] && [ -x "$d" ] || printf "%s//r\000" "$d"; done >&5' sh {} +
			printf '//f%s\000' $? >&5
		} | {
			sort -z
			echo "sort $?" >&4
		} | {
			xargs -0 -r stat -c "$f" >&5
			echo "look $?" >&4
		}
	} 4>&1)
	echo "$m/"$ended
}
send names "$@"
