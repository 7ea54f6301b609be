# Gives back the space of a journal's beginning. Runs under the session's lock.
# $1 folder, $2 byte of out.log below which nothing is wanted any more (a
# multiple of 4096), $3 how much of err.log stays
#
# A hole is punched: offsets and size stay, and who appends loses nothing (to
# read and truncate loses lines under a live writer). What is gone is on record
# in `trimmed` before it is: who attaches below it is refused, and who was on
# the way there finds out (see attach.go).
j_d=$1
j_look
[ "$j_state" != absent ] || j_fail 85 "no process was started in $j_d"
[ $((4294967296 / 4096)) = 1048576 ] || j_fail 82 "this shell counts in 32 bits: it cannot trim a journal"
cd "$j_d" || exit 1
umask 077
# Its space was taken when the process started: a full disk must not stop us.
[ -e trim.new ] || j_put trim.new "$j_room" || exit 1
j_why=$(fallocate -p -o 0 -l 1 trim.new 2>&1) || j_fail 82 "no hole can be punched here (fallocate -p): ${j_why%%
*}"
j_trimmed
j_sizes
[ "$j_size" -ge 0 ] || j_fail 83 "$j_d/out.log is gone"
j_below=$2
[ "$j_below" -le "$j_size" ] || j_below=$((j_size / 4096 * 4096))
[ "$j_below" -ge "$j_tout" ] || j_below=$j_tout
j_ebelow=$(((j_esize - $3) / 4096 * 4096))
[ "$j_ebelow" -ge "$j_terr" ] || j_ebelow=$j_terr
if [ "$j_below $j_ebelow" != "$j_tout $j_terr" ]; then
	# Overwritten in place, that takes no space; seen whole or not at all.
	echo "$j_below $j_ebelow" 1<>trim.new && mv -f trim.new trimmed || exit 1
fi
# Also what is on record already: a former trim may have been killed between.
[ "$j_below" -le 0 ] || fallocate -p -o 0 -l "$j_below" out.log || exit 1
[ "$j_ebelow" -le 0 ] || fallocate -p -o 0 -l "$j_ebelow" err.log || exit 1
[ -e trim.new ] || j_put trim.new "$j_room" 2>/dev/null
echo "fairlead-trimmed $((j_below - j_tout + j_ebelow - j_terr))"
