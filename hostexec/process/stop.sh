# Sends a signal to the job's group. Runs under the session's lock.
# $1 folder, $2 signal
j_d=$1
j_look
if [ "$j_state" = running ] && j_alive "$j_jpid" "$j_jstart"; then
	kill "-$2" "-$j_jpid" 2>/dev/null
	# A stopped process takes no other signal than KILL.
	kill -CONT "-$j_jpid" 2>/dev/null
fi
j_report
