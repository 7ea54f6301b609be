# Tells which of the files that somebody waits for have changed, or are gone.
# $1 the folder of the sessions. No program is run.
[ -d "$1" ] || exit 0
cd "$1" || exit 1
for j_w in */proc/*/watch.note; do
	# Also what the pattern is when there is none.
	case $j_w in *[!a-zA-Z0-9._/-]*) continue ;; esac
	j_d=${j_w%/watch.note}
	if [ -e "$j_d/watch.file" ] && [ ! "$j_d/watch.file" -nt "$j_d/watch.seen" ] && [ ! "$j_d/watch.file" -ot "$j_d/watch.seen" ]; then continue; fi
	# Whoever works on the host may have written it: it must not hold up the
	# others, nor crowd them out.
	[ -f "$j_w" ] && IFS= read -r j_x <"$j_w" || continue
	[ ${#j_x} -le 4096 ] || continue
	echo "fairlead-changed $j_d $j_x"
done 2>/dev/null
