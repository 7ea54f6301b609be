# Finds what on this host belongs to a session and sends it a signal. Runs
# under the session's lock.
# $1 the session's folder, $2 its mark or nothing, $3 TERM, KILL or 0 to look,
# $4 y: supervising shells too
# Prints one line each: kind (p process, s supervisor, t attachment), pid, name.
j_dir=$1
[ -r /proc/self/stat ] || j_fail 82 "this host has no /proc: what is left of a session cannot be found"
cd /
LC_ALL=C
export LC_ALL
j_boot
# Links in /proc are physical paths.
j_real=$(cd -P -- "$j_dir" 2>/dev/null && pwd -P && echo x) && j_real=${j_real%?x} || j_real=$j_dir
# What RemoveTree has renamed it to, for whoever still works in there.
j_away=${j_real%/*}/.removing-${j_real##*/}

# j_hit KIND PID START signals one, unless its number went to another by now.
j_hit() {
	j_alive "$2" "$3" || return 0
	# Its name first: it may be gone as soon as it has the signal.
	{ IFS= read -r j_name <"/proc/$2/comm"; } 2>/dev/null && [ "$j_name" ] || j_name='?'
	[ "$4" = 0 ] || kill "-$4" "$2" 2>/dev/null
	# A stopped process takes no other signal than KILL.
	[ "$4" != TERM ] || kill -CONT "$2" 2>/dev/null
	echo "$1 $2 $j_name"
}

# j_everybody lists the processes of this host. It sets j_all to words of the form
# pid:parent:session:start, and j_sshd to the pids of sshd. It sets j_environs,
# j_links and j_files to where the kernel shows their environments, links and open
# files. It leaves out threads of the kernel (PF_KTHREAD). cat reads all of it,
# since a shell reads byte by byte. The name of a process may hold newlines,
# parentheses and spaces, but is too short to look like the 20 fields behind it.
j_everybody() {
	j_all= j_sshd=' ' j_environs= j_links= j_files= j_x=
	j_y=$(cat /proc/[0-9]*/stat 2>/dev/null)
	set -f
	IFS='
'
	for j_y in $j_y; do
		j_x="$j_x$j_y "
		IFS=' '
		j_t=${j_x#*) }
		while :; do case $j_t in *') '*) j_t=${j_t#*) } ;; *) break ;; esac; done
		set -- $j_t
		[ $# -ge 20 ] || continue
		if [ "$1" != Z ] && [ "$1" != X ] && [ "$1" != x ] && [ $(($7 & 0x200000)) = 0 ]; then
			j_p=${j_x%% *}
			j_all="$j_all $j_p:$2:$4:${20}"
			j_environs="$j_environs /proc/$j_p/environ" j_links="$j_links /proc/$j_p/cwd /proc/$j_p/exe" j_files="$j_files /proc/$j_p/fd"
			case $j_x in *' (sshd'*) j_sshd="$j_sshd$j_p " ;; esac
		fi
		j_x=
	done
	unset IFS
	set +f
}
j_everybody

# j_split WORD sets j_p, j_ppid, j_session and j_s from a word of j_all.
j_split() {
	j_p=${1%%:*} j_s=${1##*:} j_session=${1#*:*:}
	j_session=${j_session%:*} j_ppid=${1#*:}
	j_ppid=${j_ppid%%:*}
}

# Never ourselves, nor whom we descend from.
j_spare=' 1 '
j_stat self
case "$j_all " in *" $j_pid:"*) ;; *) j_fail 1 "cannot list the processes of this host" ;; esac
while [ "$j_pid" -gt 1 ]; do
	j_spare="$j_spare$j_pid "
	j_stat "$j_ppid" || break
done

# By mark, exactly: the environment is a list of strings that end with NUL. What
# is started with a clean environment often still has the session's own TMPDIR
# (seen: codex's sandbox helpers).
j_found=' '
if [ "$2" ]; then
	# If grep finds the mark on its input, it can search strings that end with NUL.
	j_marked=$(printf 'a\0FAIRLEAD_SESSION=%s\0' "$2" | grep -lszxF -e "FAIRLEAD_SESSION=$2" -e "TMPDIR=$1/tmp" - $j_environs 2>/dev/null)
	case $j_marked in
	'(standard input)'*) ;;
	*)
		j_marked=$(for j_f in $j_environs; do
			{ tr '\n\000' '\001\n' <"$j_f" | grep -qxF -e "FAIRLEAD_SESSION=$2" -e "TMPDIR=$1/tmp"; } 2>/dev/null && echo "$j_f"
		done)
		;;
	esac
	for j_f in $j_marked; do
		case $j_f in /*) ;; *) continue ;; esac
		j_f=${j_f#/proc/}
		j_found="$j_found${j_f%/environ} "
	done
fi

# By recorded descent: the session of a job, its supervisor, its attachments.
j_sups='' j_ties='' j_tied=' '
for j_d in "$j_dir" "$j_dir"/proc/*; do
	j_record && [ "$j_jboot" = "$j_bootid" ] || continue
	j_live='' j_until=
	! j_alive "$j_jpid" "$j_jstart" || j_live=y
	! j_ended || j_until=$j_end
	for j_e in $j_all; do
		case $j_e in *:"$j_jpid":*) j_split "$j_e" ;; *) continue ;; esac
		[ "$j_session" = "$j_jpid" ] || continue
		# Where the job is gone its number may be a stranger's by now.
		[ "$j_live" ] || { [ "$j_until" ] && [ "$j_s" -le "$j_until" ]; } || continue
		j_found="$j_found$j_p "
	done
	! j_alive "$j_sup" "$j_sstart" || j_sups="$j_sups$j_sup $j_sstart
"
	for j_t in "$j_d"/tie.* "$j_d"/see.*; do
		[ -p "$j_t" ] || continue
		j_p=${j_t##*/???.}
		j_ties="$j_ties${j_p%%.*} ${j_p#*.}
"
		j_tied="$j_tied${j_p%%.*} "
	done
done

# j_open prints the links in /proc that lead below the folder. Without an argument
# these are work directories and programs, as /proc/1/cwd and /proc/1/exe. With y it
# also prints open files of a journal, as /proc/1/fd/1. That reads every open file of
# the host, so it is done for TERM, and when nothing else is found. j_open passes on
# a thousand paths at a time, since a command line may not hold all of them.
j_open() {
	[ "$1" ] || j_files=
	j_part= j_n=0
	for j_q in $j_links $j_files; do
		j_part="$j_part $j_q" j_n=$((j_n + 1))
		[ $j_n -ge 1000 ] || continue
		j_among || return
		j_part= j_n=0
	done
	[ -z "$j_part" ] || j_among
}

# j_among is j_open for the paths in j_part.
j_among() {
	# If find prints its first line, it knows -lname. The first pattern is only the
	# folder's own name: most links fail it, and are read once.
	find /proc/self/stat $j_part -maxdepth 1 \( -path /proc/self/stat -o -lname "*$j_ebase*" \
		\( -path '/proc/*/fd/*' \( -lname "$j_esc/*" -o -lname "$j_eaway/*" \) \( -lname '*/out.log' -o -lname '*/err.log' -o -lname '*/in' \
		-o -lname '*/out.log (deleted)' -o -lname '*/err.log (deleted)' \) \
		-o ! -path '/proc/*/fd/*' \( -lname "$j_esc" -o -lname "$j_esc/*" -o -lname "$j_esc (deleted)" \
		-o -lname "$j_eaway" -o -lname "$j_eaway/*" -o -lname "$j_eaway (deleted)" \) \) \) 2>/dev/null | {
		IFS= read -r j_y
		case $j_y:$j_real in
		/proc/self/stat:*) cat ;;
		*[!\ -~]*)
			# Some ls show such names otherwise.
			for j_y in $j_part; do
				case $j_y in
				*/fd) j_same "$j_y" ;;
				*) ! j_leads "$j_y" || echo "$j_y" ;;
				esac
			done
			;;
		*)
			# Anybody may have chosen the name of the file that a link leads to, and
			# it may look like another line. So the links themselves are read again.
			j_ls -ln /proc/self/stat $j_part 2>/dev/null | grep -F -e ' /proc/self/stat' -e /fd: -e " -> $j_real" -e " -> $j_away" | {
				j_seen= j_p=
				while IFS= read -r j_y; do
					case $j_y in
					*' /proc/self/stat') j_seen=y ;;
					/proc/*/fd:) j_p=${j_y%:} ;;
					*' /proc/'*' -> '*)
						j_q=${j_y%%' -> '*}
						j_q=/proc/${j_q##* /proc/}
						case $j_q in
						*/cwd | */exe) ! j_process "$j_q" || ! j_leads "$j_q" || echo "$j_q" ;;
						*) ! j_process "$j_p" || j_holds "$j_p" ;;
						esac
						;;
					*/out.log | */err.log | */in | *'/out.log (deleted)' | *'/err.log (deleted)') ! j_process "$j_p" || j_holds "$j_p" ;;
					esac
				done
				[ "$j_seen" ] || j_fail 82 "cannot list what the processes of this host have open"
			}
			;;
		esac
	}
}
# j_process PATH reports whether PATH is directly below the folder of a process, as
# /proc/1/cwd is.
j_process() {
	j_x=${1#/proc/}
	j_x=${j_x%/*}
	case $j_x in '' | *[!0-9]*) return 1 ;; esac
}
# j_leads LINK reports whether LINK leads to the folder or below it.
j_leads() {
	j_x=$(readlink "$1" 2>/dev/null) && j_below "$j_x"
}
# j_holds DIR prints one open file of a journal in DIR, which is a folder like
# /proc/1/fd. It prints nothing if it was called with the same DIR just before.
j_held_last=
j_holds() {
	[ "$1" != "$j_held_last" ] || return 0
	j_held_last=$1
	for j_f in "$1"/*; do
		j_x=$(readlink "$j_f" 2>/dev/null) || continue
		case $j_x in
		*/out.log | */err.log | */in | *'/out.log (deleted)' | *'/err.log (deleted)')
			case $j_x in "$j_real"/* | "$j_away"/*)
				echo "$j_f"
				return
				;;
			esac
			;;
		esac
	done
}
# j_same DIR is j_holds for a folder whose name cannot be compared. It compares files.
j_same() {
	for j_d in "$j_dir" "$j_dir"/proc/*; do
		[ -e "$j_d/out.log" ] || continue
		for j_f in "$1"/*; do
			[ "$j_f" -ef "$j_d/out.log" ] || [ "$j_f" -ef "$j_d/err.log" ] || [ "$j_f" -ef "$j_d/in" ] || continue
			echo "$j_f"
		done
	done
}
j_below() {
	case $1 in "$j_real" | "$j_real"/* | "$j_real (deleted)" | "$j_away" | "$j_away"/* | "$j_away (deleted)") ;; *) return 1 ;; esac
}
# j_escape PATH sets j_y to a pattern that matches PATH alone.
j_escape() {
	j_y=$1
	case $1 in *[][*?\\]*) j_y=$(printf '%sx' "$1" | sed 's/[][*?\\]/\\&/g') j_y=${j_y%x} ;; esac
}
j_escape "$j_real"
j_esc=$j_y
j_escape "$j_away"
j_eaway=$j_y
j_escape "${j_real##*/}"
j_ebase=$j_y
j_all_files=
[ "$3" != TERM ] && [ "$j_found$j_sups" != ' ' ] || j_all_files=y
j_near=$(j_open "$j_all_files") || exit

# A person who looks around there is not what a session left. Who logged in has an
# sshd above, which what codex started has not, except one that it started itself.
# Who came otherwise (at the machine itself, by tmux, screen or mosh, in an editor)
# has a terminal: the session's own processes have none, but for what codex runs in
# one of its own, which is known by mark and descent and loses it when codex ends.
# Or began before the session's first process: in an earlier tick, since what
# began in the same one may be the session's. Where the folder was removed nobody
# knows when that was.
j_since=
{ IFS=' ' read -r j_since j_y <"$j_dir/since"; } 2>/dev/null && j_numbers "$j_since" && [ "$j_y" = "$j_bootid" ] || j_since=
j_person() {
	j_stat "$1" || return 1
	[ "$j_tty" = 0 ] || return 0
	[ -z "$j_since" ] || [ "$j_start" -ge "$j_since" ] || return 0
	j_login "$1"
}
j_login() {
	j_stat "$1"
	while [ "$j_pid" -gt 1 ]; do
		case $j_found in *" $j_pid "*) return 1 ;; esac
		case $j_sshd in *" $j_pid "*) return 0 ;; esac
		j_stat "$j_ppid" || return 1
	done
	return 1
}
for j_f in $j_near; do
	case $j_f in */fd/*) continue ;; esac
	j_f=${j_f#/proc/}
	j_f=${j_f%/*}
	case $j_found in *" $j_f "*) continue ;; esac
	j_person "$j_f" || j_found="$j_found$j_f "
done

# By what they hold: who was started with a clean environment, went elsewhere
# and forked twice may still have its output in a journal. What an attachment
# consists of does too, and is of the session of the process that gave it its
# name; what is on its way out is gone a moment later.
if [ "$j_all_files" ]; then
	j_held=
	for j_f in $j_near; do
		case $j_f in */fd/*) ;; *) continue ;; esac
		j_f=${j_f#/proc/}
		j_f=${j_f%%/*}
		case $j_found$j_spare$j_tied in *" $j_f "*) continue ;; esac
		j_stat "$j_f" || continue
		case " $j_sups" in *[!0-9]"$j_f $j_start"*) continue ;; esac
		case $j_tied in
		*" $j_session "*)
			j_ties="$j_ties$j_f $j_start
"
			;;
		*) j_person "$j_f" || j_held="$j_held $j_f" ;;
		esac
	done
	if [ "$j_held" ]; then
		j_nap 05
		j_near=$(j_open y) || exit
		for j_f in $j_near; do
			case $j_f in */fd/*) ;; *) continue ;; esac
			j_f=${j_f#/proc/}
			j_f=${j_f%%/*}
			case "$j_held " in *" $j_f "*) case $j_found in *" $j_f "*) ;; *) j_found="$j_found$j_f " ;; esac ;; esac
		done
	fi
fi

# By descent from any of these.
j_more=$j_all
[ "$j_found" != ' ' ] || j_more=
while [ "$j_more" ]; do
	j_more=
	for j_e in $j_all; do
		j_split "$j_e"
		case $j_found in *" $j_p "*) continue ;; esac
		case $j_found in *" $j_ppid "*) j_found="$j_found$j_p " j_more=y ;; esac
	done
done

for j_e in $j_all; do
	[ "$j_found" != ' ' ] || break
	j_split "$j_e"
	case $j_spare in *" $j_p "*) continue ;; esac
	case $j_found in *" $j_p "*) j_hit p "$j_p" "$j_s" "$3" ;; esac
done
while read -r j_p j_s; do
	[ -z "$j_p" ] || j_hit t "$j_p" "$j_s" "$3"
done <<J_TIES
$j_ties
J_TIES
[ "$4" ] && j_sig=$3 || j_sig=0
while read -r j_p j_s; do
	[ -z "$j_p" ] || j_hit s "$j_p" "$j_s" "$j_sig"
done <<J_SUPS
$j_sups
J_SUPS
