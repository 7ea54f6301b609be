# Says that somebody waits for a file to change. Runs under the session's lock,
# after watch_leave.sh. $1 folder, $2 the file, $3 a word for who looks
#
# Afterwards a look is a comparison of two times, for which no program is run.
j_d=$1
umask 077
rm -f "$j_d/watch.note"
[ -e "$2" ] || exit 0
ln -sf -- "$2" "$j_d/watch.file" && true >"$j_d/watch.seen" && touch -r "$2" "$j_d/watch.seen" &&
	printf '%s\n' "$3" >"$j_d/watch.note" && exit 0
rm -f "$j_d/watch.note"
exit 1
