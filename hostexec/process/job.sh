# The job's own shell, in a session of its own: becomes the command. The part
# with environment, work directory and command follows this text.
# $1 folder, $2 umask, $3 $4 supervisor, $5 $6 the shell that waits for the start
exec 4<&-
j_d=$1
exec 2>>"$j_d/err.log"
j_boot
j_stat self
j_put "$j_d/started.$j_pid" "$j_pid $j_start $j_bootid $3 $4" || exit 81
if ! ln "$j_d/started.$j_pid" "$j_d/started" 2>/dev/null; then
	# Another was first; if not, say why.
	[ -e "$j_d/started" ] || ln "$j_d/started.$j_pid" "$j_d/started"
	rm -f "$j_d/started.$j_pid"
	exit 81
fi
rm -f "$j_d/started.$j_pid"
# Before the command does anything: a host that loses its power must know then
# that it began.
j_flush "$j_d/started"
# From here on the process has begun, unless the command cannot be run.
: >"$j_d/out.log"
: >"$j_d/err.log"
trap ': >"$j_d/noexec"' EXIT
! j_alive "$5" "$6" || kill -9 "$5"
umask "$2"
