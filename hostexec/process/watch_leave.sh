# Says that a process is waited for by somebody who holds no channel to it.
# Runs under the session's lock. $1 folder, $2 how far its journal was read
#
# All that a look needs is in the file's name: OFFSET.PID.START.BOOT; there is
# nothing in the file, so that it can be made on a full disk too.
j_d=$1
umask 077
j_look
[ "$j_state" != absent ] || j_fail 85 "no process was started in $j_d"
j_new=$j_d/watch.$2.$j_jpid.$j_jstart.$j_jboot
true >"$j_new" || exit 1
for j_w in "$j_d"/watch.*; do
	[ "$j_w" = "$j_new" ] || rm -f "$j_w"
done
