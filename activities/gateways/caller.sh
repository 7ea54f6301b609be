# Says whose connections to a port of this host are. Plain POSIX shell, Linux's /proc.
# $1 the port of the model gateway, $2 the session's folder; then the ports of the programs. The kernel
# writes ports so: four digits, in capitals. For each of them, in order, it prints a line: session if
# the program runs below a process of the session, and otherwise why not.
LC_ALL=C
export LC_ALL
gate=$1 dir=$2
shift 2
if [ ! -r /proc/net/tcp ]; then
	for port; do echo "this host has no /proc/net/tcp"; done
	exit 0
fi
me=$(id -u) || exit 1
# Only a connection that is established has an owner: in other states, the kernel says 0.
rest='01 [0-9A-F:]* [0-9A-F:]* [0-9A-F]*  *\([0-9]*\)  *[0-9]* \([0-9]*\) .*'
# 127.0.0.1 is written by the order of the machine's bytes, also as an address of IPv6.
# Line n of the answer is about the connection n, with user u<n>, socket i<n> and process p<n>.
n=0
program=
for port; do
	n=$((n + 1))
	for at in 0100007F 7F000001; do
		for six in '' 0000000000000000FFFF0000; do
			program="$program
s/^ *[0-9]*: $six$at:$port $six$at:$gate $rest/$n \\1 \\2/p"
		done
	done
	eval "u$n= i$n= p$n= l$n=0"
done
most=$n
sockets=
while read -r n user socket; do
	[ -n "$n" ] || continue
	eval "known=\$i$n"
	[ -z "$known" ] || continue
	eval "u$n=$user i$n=$socket"
	[ "$user" = "$me" ] && [ "$socket" != 0 ] || continue
	# The names of open files are chosen by programs, so a line of ls counts only if the link leads to
	# the socket.
	sockets="$sockets
/ -> socket:\\[$socket\\]\$/{s/.* \\([0-9][0-9]*\\) -> .*/\\1/;G;s/^\\([0-9]*\\)\\n\\/proc\\/\\([0-9]*\\)\\/fd:\$/$n \\2 \\1/p;}"
done <<END
$(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | sed -n "$program")
END
# Other users' processes cannot be looked into, and need not.
if [ -n "$sockets" ]; then
	while read -r n pid fd; do
		[ -n "$n" ] || continue
		eval "known=\$p$n socket=\$i$n looked=\$l$n"
		[ -z "$known" ] && [ "$looked" -lt 256 ] || continue
		eval "l$n=$((looked + 1))"
		[ "$(readlink "/proc/$pid/fd/$fd" 2>/dev/null)" != "socket:[$socket]" ] || eval "p$n=$pid"
	done <<END
$(ls -ln /proc/self/fd /proc/[0-9]*/fd 2>/dev/null | sed -n -e '/^\/proc\/.*:$/h' -e "$sockets")
END
fi
# The processes of the session, with the times of their starts.
ours=' '
for f in "$dir"/proc/*/started; do
	{ IFS=' ' read -r pid began x <"$f"; } 2>/dev/null || continue
	case $began in '' | *[!0-9]*) continue ;; esac
	ours="$ours$pid/$began "
done
# below says whether process $1 runs below one of them. It starts no program: a question may be about
# many processes.
below() {
	pid=$1 steps=0
	while :; do
		case $pid in '' | 0 | 1 | *[!0-9]*) return 1 ;; esac
		[ $((steps += 1)) -le 256 ] || return 1
		# The name in the second field may have anything in it, also line feeds and parentheses.
		stat=
		{ while IFS= read -r line || [ -n "$line" ]; do stat="$stat $line"; done <"/proc/$pid/stat"; } 2>/dev/null
		set -- ${stat##*) }
		case $ours in *" $pid/${20} "*) return 0 ;; esac
		pid=$2
	done
}
n=0
seen=' ' # what was said of a process
while [ "$n" -lt "$most" ]; do
	n=$((n + 1))
	eval "user=\$u$n socket=\$i$n first=\$p$n"
	if [ -z "$socket" ]; then
		echo "no program of this host has the connection"
	elif [ "$user" != "$me" ]; then
		echo "it is of user $user"
	elif [ "$socket" = 0 ]; then
		echo "no program of this host has the connection"
	else
		case $seen in
		*" $first=session "*) verdict=session ;;
		*" $first=none "*) verdict=none ;;
		*) if below "$first"; then verdict=session; else verdict=none; fi ;;
		esac
		seen="$seen$first=$verdict "
		if [ "$verdict" = session ]; then
			echo session
		else
			echo "it is of process ${first:-none that can be found}, which is none of the session's"
		fi
	fi
done
