# The supervising shell: runs the job, waits for it, records how it ended.
# It is in a session of its own, holds neither the job's input nor the
# session's mark, and lives as long as the job.
# $1 folder, $2 the user's umask
exec 3<&-
# Caught, not ignored: what is ignored stays ignored in the job.
trap : HUP INT QUIT TERM
cd /
j_d=$1
j_stat "$PPID" && j_wait=$PPID && j_wstart=$j_start
j_stat self
j_me=$j_pid j_mystart=$j_start
j_setsid sh -c 'eval "$(cat <&4)"' "fairlead-job:$j_me" \
	"$j_d" "$2" "$j_me" "$j_mystart" "$j_wait" "$j_wstart"
j_rc=$?
exec 4<&-
# Another starter's job got the link.
j_record && [ "$j_sup $j_sstart" = "$j_me $j_mystart" ] || exit 81
if [ -e "$j_d/noexec" ]; then
	# The command never ran: take the start back.
	mv -f "$j_d/noexec" "$j_d/failed"
	rm -f "$j_d/started"
	exit 81
fi
# Who belongs to the job's session was there by now; a later process with that
# session's number is a stranger.
j_end=$(j_stat self && echo "$j_start")
while [ -d "$j_d" ]; do
	echo "$j_rc $j_end" 1<>"$j_d/exit.new" && j_flush "$j_d/exit.new" && mv -f "$j_d/exit.new" "$j_d/exit" && break
	sleep 1
done
# Whoever is attached learns it from us; whoever attaches from now on sees exit.
for j_t in "$j_d"/tie.* "$j_d"/see.*; do
	[ -p "$j_t" ] || continue
	j_x=${j_t##*/???.}
	j_p=${j_x%%.*}
	if j_alive "$j_p" "${j_x#*.}"; then kill -TERM "$j_p"; else rm -f "$j_t" "$j_t-t"; fi 2>/dev/null
done
