# What all scripts of a journaled process share. Plain POSIX shell, Linux's
# /proc; no function runs another program unless it says so. All names begin
# with j_ (what fl_ begins belongs to the fence).

# j_fail STATUS WORDS ends the script with a reason.
j_fail() {
	echo "fairlead-process: $2" >&2
	exit "$1"
}

# j_stat PID|self tells what the kernel knows of a process. The name in the
# second field may hold anything, a newline or a parenthesis too.
j_stat() {
	j_x=
	# Of a process that goes meanwhile reading fails, and leaves the variable as it is.
	{ while j_y=; IFS= read -r j_y || [ -n "$j_y" ]; do j_x="$j_x$j_y "; done <"/proc/$1/stat"; } 2>/dev/null
	[ -n "$j_x" ] || return 1
	j_pid=${j_x%% *}
	set -- ${j_x##*) }
	j_run=$1 j_ppid=$2 j_group=$3 j_session=$4 j_tty=$5 j_start=${20}
}

# j_alive PID START: it is there, not only its zombie, and no other process
# has its number by now.
j_alive() {
	[ -n "$2" ] && j_stat "$1" && [ "$j_start" = "$2" ] || return 1
	case $j_run in Z | X | x) return 1 ;; esac
}

# j_put FILE WORDS writes a line. The second try is for the reason: some
# shells call a full disk an I/O error.
j_put() {
	{ echo "$2" >"$1"; } 2>/dev/null || echo "$2" | cat >"$1"
}

# j_nap N waits for N hundredths of a second, a second where sleep knows no less.
j_nap() {
	sleep "0.$1" 2>/dev/null || sleep 1
}

# j_numbers: each of WORDS is a number.
j_numbers() {
	for j_x in "$@"; do
		case $j_x in '' | *[!0-9]*) return 1 ;; esac
	done
}

# j_flush FILE has a file on the disk before the script goes on. Runs dd or sync;
# where neither can, the script goes on.
j_flush() {
	{ dd if=/dev/null of="$1" conv=notrunc,fsync || sync "$1" || sync; } >/dev/null 2>&1
	:
}

# j_record reads who runs in folder j_d. The record is made whole by one link.
# One that is there and cannot be read was cut short by a loss of power: the
# process began, in the time of another boot.
j_record() {
	for j_try in 1 2 3; do
		{ IFS=' ' read -r j_jpid j_jstart j_jboot j_sup j_sstart j_x <"$j_d/started"; } 2>/dev/null &&
			j_numbers "$j_jpid" "$j_jstart" "$j_sup" "$j_sstart" && return
		[ -e "$j_d/started" ] || return 1
	done
	j_jpid=0 j_jstart='' j_jboot='lost' j_sup=0 j_sstart=''
}

# j_ended reads how it ended. A record that cannot be read, likewise, is none.
j_ended() {
	if { IFS=' ' read -r j_code j_end j_x <"$j_d/exit"; } 2>/dev/null && j_numbers "$j_code"; then
		j_numbers "$j_end" || j_end=
		return
	fi
	j_code=0 j_end=
	return 1
}

j_boot() {
	IFS= read -r j_bootid </proc/sys/kernel/random/boot_id
}

# j_look finds the state of the process in j_d.
j_look() {
	j_state=absent j_jpid=0 j_code=0 j_end=
	j_record || return 0
	j_state=exited
	! j_ended || return 0
	j_code=0
	j_boot
	if [ "$j_jboot" != "$j_bootid" ]; then
		j_state=rebooted
		return 0
	fi
	j_i=0
	while ! j_alive "$j_jpid" "$j_jstart"; do
		# Its supervisor is about to say how it ended, or to take back a start
		# that failed; if there is none any more, nobody will.
		if ! j_alive "$j_sup" "$j_sstart"; then
			! j_ended || return 0
			j_record || { j_state=absent j_jpid=0; return 0; }
			j_state=lost
			return 0
		fi
		! j_ended || return 0
		j_record || { j_state=absent j_jpid=0; return 0; }
		j_i=$((j_i + 1))
		[ $j_i -lt 100 ] || break
		j_nap 02
	done
	j_state=running
}

# j_ls is ls as it comes, whatever its user wants it to show.
j_ls() (
	unset TIME_STYLE QUOTING_STYLE BLOCK_SIZE LS_BLOCK_SIZE
	LC_ALL=C ls "$@"
)

# j_sizes finds the lengths of the journals, -1 for one that is missing. Runs ls.
j_sizes() {
	j_size=-1 j_esize=-1
	while read -r j_x j_x j_x j_x j_y j_x; do
		case $j_x in
		*' out.log') j_size=$j_y ;;
		*' err.log') j_esize=$j_y ;;
		esac
	done <<J_LS
$(cd "$j_d" 2>/dev/null && j_ls -ln out.log err.log 2>/dev/null)
J_LS
}

# j_trimmed finds below which bytes out.log and err.log may be holes.
j_trimmed() {
	j_tout=0 j_terr=0
	{ IFS=' ' read -r j_tout j_terr j_x <"$j_d/trimmed"; } 2>/dev/null
	case $j_tout:$j_terr in :* | *: | *[!0-9:]*) j_tout=0 j_terr=0 ;; esac
}

# j_room is as long as any record that is written over it, in place.
j_room='                                                              '

# j_line is a status as one line; the client parses it. After j_look and j_sizes.
j_line() {
	j_trimmed
	echo "$1 $j_state $j_jpid $j_code $j_size $j_esize $j_tout $j_terr"
}

# j_report prints the status and, of what has ended, the end of err.log.
j_report() {
	j_sizes
	j_line fairlead-process
	case $j_state in
	exited | lost | rebooted) tail -c 4096 "$j_d/err.log" 2>/dev/null ;;
	esac
	return 0
}

# j_setsid runs a command in a session of its own. setsid(1) does not fork
# here: the caller is a shell that forks for it.
j_setsid() {
	if command -v setsid >/dev/null 2>&1; then
		setsid "$@"
	elif command -v perl >/dev/null 2>&1; then
		perl -MPOSIX -e 'POSIX::setsid() > 0 or die "setsid: $!"; exec { $ARGV[0] } @ARGV; die "$ARGV[0]: $!"' "$@"
	elif command -v python3 >/dev/null 2>&1; then
		python3 -c 'import os, sys; os.setsid(); os.execvp(sys.argv[1], sys.argv[1:])' "$@"
	else
		return 127
	fi
}
