# Ends the former holder of a forward and, to take it, records the sshd process of this
# connection as the holder. It runs under the session's lock. A killed process is gone at
# once, so the wait below is short.
# $1 the session's folder, $2 the forward's name, $3 take or end, $4 path of a socket or
# nothing
fw_fail() { echo "fairlead-forward: $1" >&2; exit 81; }
fw_file=$1/forward-$2
# fw_look PID sets fw_n to the beginning of a process's line, with its name, and fw_s to
# when it started.
fw_look() {
	IFS= read -r fw_s <"/proc/$1/stat" || return 1
	fw_n=${fw_s%)*}
	set -- ${fw_s##*)}
	case $1 in Z | X | x) return 1 ;; esac
	fw_s=${20}
} 2>/dev/null
fw_sshd() { case $fw_n in *'(sshd'* | *'(dropbear'*) return 0 ;; esac; return 1; }
[ -r /proc/self/stat ] || fw_fail "this host has no /proc: who holds a forward cannot be found"
fw_pid= fw_then=
{ IFS=' ' read -r fw_pid fw_then fw_x <"$fw_file"; } 2>/dev/null
case $fw_pid in '' | *[!0-9]* | 1) fw_pid= ;; esac
if [ "$fw_pid" ] && [ "$fw_pid" != "$PPID" ]; then
	fw_i=0
	while fw_look "$fw_pid" && [ "$fw_s" = "$fw_then" ] && fw_sshd; do
		kill -KILL "$fw_pid" 2>/dev/null
		fw_i=$((fw_i + 1))
		[ $fw_i -lt 200 ] || fw_fail "sshd process $fw_pid, which holds the forward, cannot be ended"
		sleep 0.02 2>/dev/null || sleep 1
	done
fi
[ -z "$4" ] || rm -f -- "$4" || fw_fail "the socket $4 cannot be removed"
if [ "$3" = take ]; then
	fw_look "$PPID" && fw_sshd || fw_fail "a program between sshd and the shell keeps the holder of a forward from being found"
	{ echo "$PPID $fw_s" >"$fw_file.new" && mv -f -- "$fw_file.new" "$fw_file"; } || fw_fail "the holder cannot be recorded"
else
	rm -f -- "$fw_file"
fi
