# Looks at all processes that are waited for and tells of those that ended or
# wrote something. $1 the folder of the sessions
#
# A host can hold thousands: where nothing has happened no program is run for
# a process, only one ls and one cat for a hundred of them.
[ -d "$1" ] || exit 0
cd "$1" || exit 1
j_boot
j_nl='
'
j_empty() { j_n=0 j_watched='' j_logs='' j_stats=''; }

# j_known WORDS of stat: its process is there, and began when it did.
j_known() {
	j_p=${1%% *}
	set -- ${1##*) }
	case $1 in Z | X | x) ;; *) j_running="$j_running$j_p.${20} " ;; esac
}

# j_listed WORDS of ls -ln. What is no plain file puts it out of step for a line.
j_listed() {
	while [ $# -ge 9 ]; do
		case $1 in
		-?????????*)
			j_lengths="$j_lengths$9:$5 "
			shift 9
			;;
		*) shift ;;
		esac
	done
}

# j_one NAME:OFFSET.PID.START.BOOT
j_one() {
	j_d=${1%%:*} j_x=${1#*:}
	j_w=$j_d/watch.$j_x
	j_off=${j_x%%.*} j_x=${j_x#*.}
	case $j_running in
	*" ${j_x%.*} "*)
		[ "${j_x##*.}" != "$j_bootid" ] || case $j_lengths in *" $j_d/out.log:$j_off "*) return ;; esac
		;;
	esac
	j_look
	j_size=-1
	case $j_lengths in
	*" $j_d/out.log:"*)
		j_x=${j_lengths#*" $j_d/out.log:"}
		j_size=${j_x%% *}
		;;
	esac
	[ "$j_state" != running ] || [ "$j_size" != "$j_off" ] || return
	case $j_code in '' | *[!0-9]* | ??????????*) j_code=-1 ;; esac
	# Whoever attached meanwhile sees it for himself.
	[ ! -e "$j_w" ] || echo "fairlead-watch $j_d $j_off $j_state $j_code $j_size"
}

j_batch() {
	j_lengths=' ' j_running=' '
	j_listed $(j_ls -lnd $j_logs 2>/dev/null)
	j_ifs=$IFS IFS=$j_nl
	for j_l in $(IFS=' '; cat $j_stats 2>/dev/null); do
		IFS=$j_ifs
		j_known "$j_l"
	done
	IFS=$j_ifs
	for j_l in $j_watched; do j_one "$j_l"; done
	j_empty
}

j_empty
for j_w in */proc/*/watch.*; do
	# Also what the pattern is when there is none.
	case $j_w in *[!a-zA-Z0-9._/-]*) continue ;; esac
	j_d=${j_w%/watch.*} j_x=${j_w##*/watch.}
	case $j_x in *.*.*.*) ;; *) continue ;; esac
	# Nor what nobody of ours left: it must not hide the others.
	case ${j_x%%.*} in '' | *[!0-9]* | ???????????????????*) continue ;; esac
	j_y=${j_x#*.}
	j_watched="$j_watched $j_d:$j_x" j_logs="$j_logs $j_d/out.log" j_stats="$j_stats /proc/${j_y%%.*}/stat"
	j_n=$((j_n + 1))
	[ $j_n -lt 100 ] || j_batch
done
[ $j_n -eq 0 ] || j_batch
