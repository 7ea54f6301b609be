# Removes the folder of a process that has ended. Runs under the session's lock.
# $1 folder
j_d=$1
[ -e "$j_d" ] || exit 0
j_look
[ "$j_state" != running ] || j_fail 87 "process $j_jpid in $j_d is running"
cd / # not in what is to go
rm -rf -- "$j_d" || rm -rf -- "$j_d" || exit 1
