# Attaches to a journaled process. An exclusive attachment comes here with the
# session's lock held, and gives it back.
# $1 folder, $2 byte to begin with (from 1), $3 out.log or err.log,
# $4 tie (exclusive) or see (follower), $5 seconds between looks for silence,
# $6 lines if that byte is the first of a line
#
# Up to five processes:
#   cat      the script's own shell becomes it: channel -> in. It is whom a
#            newer holder kills: nobody else ever holds the input for writing.
#   watcher  reads a FIFO that cat alone holds for writing; EOF: cat is gone.
#   tail     journal -> channel.
#   ticker   looks whether the client is silent; and its sleep.
# Whoever wants the attachment to end ends cat, and the watcher clears up:
# the client (EOF), a newer holder (KILL), the supervisor at the job's end
# (TERM), the ticker (HUP), a write that no one reads (PIPE).
j_d=$1 j_file=$3
umask 077
j_look
[ "$j_state" != absent ] || j_fail 85 "no process was started in $j_d"

# j_whose TIE splits its name into pid and start time of its owner.
j_whose() {
	j_p=${1##*/???.}
	j_s=${j_p#*.}
	j_p=${j_p%%.*}
}

if [ "$4" = tie ]; then
	for j_t in "$j_d"/tie.*; do
		[ -p "$j_t" ] || continue
		j_whose "$j_t"
		j_i=0
		while [ "$j_state" != rebooted ] && j_alive "$j_p" "$j_s"; do
			kill -9 "$j_p" 2>/dev/null
			j_i=$((j_i + 1))
			[ $j_i -lt 1000 ] || j_fail 86 "process $j_p of an older attachment does not end"
			[ $j_i -eq 1 ] || j_nap 01
		done
		rm -f "$j_t" "$j_t-t"
	done
	# Followers whose watcher was killed.
	for j_t in "$j_d"/see.*; do
		[ -p "$j_t" ] || continue
		j_whose "$j_t"
		j_alive "$j_p" "$j_s" || rm -f "$j_t" "$j_t-t"
	done
	# What was left for those who look after it while nobody is attached.
	for j_t in "$j_d"/watch.*; do
		[ ! -e "$j_t" ] || rm -f "$j_t"
	done
fi
j_stat self
j_main=$j_pid j_mstart=$j_start
j_tie=$j_d/$4.$j_main.$j_mstart
# The supervisor's word may come before there is a watcher to hear of our end.
j_told=
trap j_told=y TERM
mkfifo "$j_tie" || exit 1
[ "$4" = see ] || fl_unlock
# The supervisor kills those whose ties it sees; it may have looked before.
j_look
j_sizes
[ "$j_file" = out.log ] && j_n=$j_size || j_n=$j_esize
j_refuse() {
	rm -f "$j_tie" "$j_tie-t"
	j_fail "$1" "$j_d/$j_file $2"
}
if [ "$j_n" -lt $(($2 - 1)) ]; then
	[ "$j_n" -ge 0 ] || j_refuse 83 "is gone"
	j_refuse 83 "has $j_n bytes"
fi
# The byte before, and what became of dd: substitution drops newlines at the
# end only. Braces, for some shells complain of a zero.
j_b='
:0'
j_was=$j_b
if [ "$6" ] && [ "$2" -gt 1 ]; then
	{ j_was=$(dd if="$j_d/$j_file" bs=1 skip=$(($2 - 2)) count=1 2>/dev/null; echo ":$?"); } 2>/dev/null
fi
# After that byte was read: a trim is on record before it is done.
j_trimmed
[ "$j_file" = out.log ] && j_n=$j_tout || j_n=$j_terr
[ "$2" -gt "$j_n" ] || j_refuse 83 "was trimmed: its first $j_n bytes are gone"
# A trim that ends just there has taken the newline.
if [ "$j_was" != "$j_b" ] && [ "$2" -gt $((j_n + 1)) ]; then
	case $j_was in
	*:0) j_refuse 83 "is not what it was: no line ends at byte $(($2 - 1)), so it was truncated and has grown again" ;;
	*) j_refuse 1 "cannot be read at byte $(($2 - 2))" ;;
	esac
fi
j_line fairlead-process

# j_pump stands in for a tail that polls once a second: descriptor 3 keeps the
# place from one cat to the next.
j_pump() {
	exec 3<"$j_d/$j_file"
	tail -c "+$1" <&3
	while [ -e "$j_tie" ]; do
		cat <&3 || exit
		j_nap 05
	done
	cat <&3
}

# j_place tells how far tail has read.
j_place() {
	for j_f in /proc/$j_tail/fd/*; do
		[ "$j_f" -ef "$j_d/$j_file" ] || continue
		{ read -r j_x j_place <"/proc/$j_tail/fdinfo/${j_f##*/}"; } 2>/dev/null
		return
	done
	return 1
}

# j_signs PID finds numbers that grow when a process has read: the bytes, and
# how often it has waited, for some programs read without being counted. On an
# overlay, the file system of containers, the FIFO's time does not tell.
j_signs() {
	j_signs=
	for j_f in io status; do
		{
			while read -r j_y j_x; do
				case $j_y in rchar: | voluntary_ctxt_switches:) j_signs="$j_signs $j_x" ;; esac
			done <"/proc/$1/$j_f"
		} 2>/dev/null
	done
}

j_ticker() {
	j_last=$!
	trap '[ "$!" = "$j_last" ] || kill $! 2>/dev/null; exit' TERM
	j_misses=0
	j_signs "$j_main"
	while :; do
		j_seen=$j_signs
		# Not a special builtin: those end the shell when the disk is full.
		true >"$j_tie-t"
		sleep "$2" &
		wait $! || sleep 1
		j_stat self
		if ! j_alive "$j_main" "$j_mstart"; then
			# The watcher clears up, if there is one.
			[ "$j_ppid" = "$j_watcher" ] || { kill "$j_tail"; rm -f "$j_tie" "$j_tie-t"; }
			exit
		fi
		j_signs "$j_main"
		if [ "$j_signs" != "$j_seen" ] || [ ! -e "$j_tie-t" ] || [ "$1" -nt "$j_tie-t" ]; then j_misses=0; else j_misses=$((j_misses + 1)); fi
		# A supervisor that was killed tells nobody of the end.
		j_look
		if [ "$j_ended" = '' ] && [ "$j_state" != running ]; then
			kill -TERM "$j_main"
		elif [ $j_misses -ge 3 ]; then
			kill -HUP "$j_main" "$j_tail"
			# A worker that nohup started hands down that HUP is ignored.
			[ $j_misses -eq 3 ] || kill -9 "$j_main" "$j_tail"
		fi
	done
}

# The watcher. $1 byte to begin with, $2 file that the client touches, $3 seconds
j_watch() {
	cd /
	j_stat self
	j_watcher=$j_pid
	if [ "$j_ended" ]; then
		j_kind=ended
		tail -c "+$1" "$j_d/$j_file" </dev/null &
	else
		# Found out when the process was started.
		j_kind=pump
		{ read -r j_kind <"$j_d/follow"; } 2>/dev/null
		case $j_kind in
		gnu)
			# The interval is for when inotify is not to be had.
			tail -s 0.09 -c "+$1" -f "$j_d/$j_file" </dev/null &
			;;
		*)
			(exec </dev/null && j_pump "$1") &
			;;
		esac
	fi
	j_tail=$!
	(exec </dev/null >/dev/null 2>&1 && j_ticker "$2" "$3") &
	j_tick=$!
	# The client may go at any moment, and there will still be to clear up.
	trap '' PIPE
	if [ $j_kind = ended ]; then
		wait $j_tail
		kill -TERM "$j_main"
	fi
	while read -r j_x; do :; done
	{ kill $j_tick && wait $j_tick; } 2>/dev/null
	j_look
	if [ "$j_state" = running ]; then
		kill -9 $j_tail 2>/dev/null
		# Tell an older holder why it was cut off.
		[ ! -r "$j_fence" ] || { read -r j_x <"$j_fence" && echo "fairlead-epoch $j_x" >&2; }
		rm -f "$j_tie" "$j_tie-t"
		exit
	fi
	j_sizes
	[ "$j_file" = out.log ] && j_n=$j_size || j_n=$j_esize
	case $j_kind in
	pump)
		rm -f "$j_tie"
		wait $j_tail
		;;
	gnu)
		# Let it come to the end. What it had no time to write, the client
		# sees missing and fetches.
		j_i=0 j_before=
		while j_place && [ "$j_place" -lt "$j_n" ] && [ $j_i -lt 200 ]; do
			[ "$j_place" = "$j_before" ] && j_i=$((j_i + 1)) || j_i=0
			j_before=$j_place
			j_nap 01
		done
		kill $j_tail
		wait $j_tail
		;;
	esac
	rm -f "$j_tie" "$j_tie-t"
	j_line fairlead-end >&2
}

# Redirecting a function saves the descriptors somewhere; exec does not. The
# end that is for writing must be in one place only.
j_behind() {
	trap - TERM
	exec <&8 8<&- 6>&-
	j_watch "$@"
}

case $j_state in running) j_ended='' ;; *) j_ended=y ;; esac
j_fence=${fl_d+$fl_d/epoch}
exec 7<>"$j_tie"
exec 8<"$j_tie"
exec 6>"$j_tie"
exec 7>&-
if [ "$4" = tie ] && [ -z "$j_ended" ]; then
	j_behind "$2" "$j_d/in" "$5" &
	trap - TERM
	[ -z "$j_told" ] || exit
	exec 8<&-
	# Opening for writing alone would wait for a reader; with both ends open it
	# does not, and then a write fails if the job is gone.
	exec 4<>"$j_d/in"
	exec 5>"$j_d/in"
	exec 4<&-
	# Ends what a dead writer may have left half written.
	echo >&5 || exit 141
	exec cat >&5 5>&-
fi
# Blank lines of the client touch a file that only this is for.
j_behind "$2" "$j_tie" "$5" &
trap - TERM
[ -z "$j_told" ] || exit
exec 8<&-
exec cat >&6
