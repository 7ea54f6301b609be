# Starts a journaled process, once. Runs under the session's lock.
# $1 folder, $2 supervisor's script, $3 job's script, $4 work directory
#
# What makes it once is not the lock alone, since a starter may be killed
# while what it set off goes on, but the link `started`: the job's shell makes
# it just before it becomes the command. However many starters set off, one
# link succeeds, and who did not get it ends. So there is no claim to recover
# from a starter that died: without the link nothing began, and the next
# starter simply starts.
j_d=$1
[ -r /proc/self/stat ] || j_fail 82 "this host has no /proc: journaled processes need it"
j_look
if [ "$j_state" != absent ]; then
	j_report
	exit 0
fi
command -v setsid >/dev/null 2>&1 || j_setsid sh -c : || j_fail 82 "none of setsid, perl and python3 works on this host: no process can outlive its connection"
[ -z "$4" ] || [ -d "$4" ] || j_fail 81 "work directory $4: no such directory"
j_umask=$(umask)
umask 077
mkdir -p -- "$j_d" || exit 1
cd / # what stays behind must not hold on to anything
# Whoever began earlier is none of the session's; see reap.sh.
[ -e "$fl_d/since" ] || { j_boot && j_stat self && j_put "$fl_d/since" "$j_start $j_bootid"; } 2>/dev/null || rm -f "$fl_d/since"
rm -f "$j_d/noexec" "$j_d/failed" "$j_d/trimmed"
[ -p "$j_d/in" ] || mkfifo "$j_d/in" || exit 1
: >>"$j_d/out.log" || exit 1
: >>"$j_d/err.log" || exit 1
# Whether tail sees at once what is written, or only looks now and then.
case $(tail --version 2>/dev/null) in
*'GNU coreutils'*) j_put "$j_d/follow" gnu || exit 1 ;;
*) j_put "$j_d/follow" pump || exit 1 ;;
esac
# The record of the end takes its space now, and will find it on a full disk;
# so does that of a trim, which makes room on one.
j_put "$j_d/exit.new" "$j_room" && j_put "$j_d/trim.new" "$j_room" || exit 1

# The subshell waits for the supervisor in the foreground, since what a shell
# puts in the background ignores interrupts for ever. Once the job has begun
# its shell kills the subshell, and the supervisor stays behind on its own.
{
	(
		j_setsid sh -c 'eval "$(cat <&3)"' fairlead-supervisor "$j_d" "$j_umask" \
			3<<J_SUPERVISOR 4<<J_JOB 9>&- </dev/null >/dev/null
$2
J_SUPERVISOR
$3
J_JOB
		exit $?
	)
	j_rc=$?
} 2>/dev/null

# The link is made; wait until the job's shell has become the command.
j_i=0
while j_record; do
	if j_alive "$j_jpid" "$j_jstart"; then
		# Who is ending, since it could not become the command, lives on for a
		# moment without a command line: so it must have one, of another's.
		case $({ tr '\0' ' ' <"/proc/$j_jpid/cmdline"; } 2>/dev/null) in
		*"fairlead-job:$j_sup"*) j_nap 01 ;; # it runs the guard
		'') j_nap 01 ;;
		*) break ;;
		esac
	elif [ -e "$j_d/exit" ] || ! j_alive "$j_sup" "$j_sstart"; then
		break
	else
		j_nap 01
	fi
	j_i=$((j_i + 1))
	[ $j_i -lt 1000 ] || break
done
j_look
if [ "$j_state" != absent ]; then
	j_report
	exit 0
fi
[ $j_rc -eq 81 ] || [ -e "$j_d/failed" ] || j_fail 84 "the start was interrupted (status $j_rc)"
tail -c 4096 "$j_d/err.log" >&2
cd "$j_d" && rm -f in out.log err.log follow exit.new trim.new failed noexec && cd / && rmdir "$j_d"
exit 81
