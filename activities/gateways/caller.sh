# Says whose a connection to a port of this host is. Plain POSIX shell, Linux's /proc.
# $1 the port of the program, $2 the port of the model gateway, both as the kernel writes them, $3 the
# session's folder. It prints session if the program runs below a process of the session.
LC_ALL=C
export LC_ALL
[ -r /proc/net/tcp ] || { echo "this host has no /proc/net/tcp"; exit 0; }
me=$(id -u) || exit 1
# Only a connection that is established has an owner: in other states, the kernel says 0.
rest='01 [0-9A-F:]* [0-9A-F:]* [0-9A-F]*  *\([0-9]*\)  *[0-9]* \([0-9]*\) .*'
for at in 0100007F 7F000001; do # by the order of the machine's bytes
	for six in '' 0000000000000000FFFF0000; do
		found=$(sed -n "s/^ *[0-9]*: $six$at:$1 $six$at:$2 $rest/\1 \2/p" /proc/net/tcp${six:+6} 2>/dev/null)
		[ -z "$found" ] || break 2
	done
done
set -- "$1" "$2" "$3" $found
[ $# -eq 5 ] || { echo "no program of this host has the connection"; exit 0; }
[ "$4" = "$me" ] || { echo "it is of user $4"; exit 0; }
[ "$5" != 0 ] || { echo "no program of this host has the connection"; exit 0; }
# Other users' processes cannot be looked into, and need not. The names of open files are chosen by
# programs, so a line of ls counts only if the link leads to the socket.
pid=
for f in $(ls -ln /proc/self/fd /proc/[0-9]*/fd 2>/dev/null | sed -n -e '/^\/proc\/.*:$/h' \
	-e "/ -> socket:\[$5\]\$/{s/.* \([0-9][0-9]*\) -> .*/\1/;G;s/^\([0-9]*\)\n\/proc\/\([0-9]*\)\/fd:\$/\2\/fd\/\1/p;}" | sed -n 1,256p); do
	[ "$(readlink "/proc/$f" 2>/dev/null)" = "socket:[$5]" ] || continue
	pid=${f%%/*}
	break
done
first=$pid steps=0
while :; do
	case $pid in '' | 0 | 1 | *[!0-9]*) break ;; esac
	[ $((steps += 1)) -le 256 ] || break
	# The name in the second field may have anything in it, also line feeds and parentheses.
	stat=$(tr '\n' ' ' <"/proc/$pid/stat" 2>/dev/null)
	port=$1 gate=$2 dir=$3
	set -- ${stat##*) }
	next=$2 began=${20}
	set -- "$port" "$gate" "$dir"
	for f in "$3"/proc/*/started; do
		{ IFS=' ' read -r p s x <"$f"; } 2>/dev/null || continue
		if [ "$p" = "$pid" ] && [ "$s" = "$began" ]; then
			echo session
			exit 0
		fi
	done
	pid=$next
done
echo "it is of process ${first:-none that can be found}, which is none of the session's"
