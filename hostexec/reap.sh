# Finds what on this host belongs to a session and sends it a signal. Runs
# under the session's lock.
# $1 the session's folder, $2 its mark or nothing, $3 TERM, KILL or 0 to look,
# $4 y: supervising shells too
# Prints one line each: kind (p process, s supervisor, t attachment), pid, name.
j_dir=$1
[ -r /proc/self/stat ] || j_fail 82 "this host has no /proc: what is left of a session cannot be found"
cd /
j_boot
# Links in /proc are physical paths.
j_real=$(cd -P -- "$j_dir" 2>/dev/null && pwd -P && echo x) && j_real=${j_real%?x} || j_real=$j_dir

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

# Everybody: pid, parent, session, start time.
j_all= j_sshd=' '
for j_f in /proc/[0-9]*; do
	j_stat "${j_f#/proc/}" || continue
	case $j_run in Z | X | x) continue ;; esac
	j_all="$j_all$j_pid $j_ppid $j_session $j_start
"
	case $j_x in *' (sshd'*) j_sshd="$j_sshd$j_pid " ;; esac
done

# Never ourselves, nor whom we descend from.
j_spare=' 1 '
j_stat self
while [ "$j_pid" -gt 1 ]; do
	j_spare="$j_spare$j_pid "
	j_stat "$j_ppid" || break
done

# By mark, exactly: the environment is a list of strings that end with NUL. What
# is started with a clean environment often still has the session's own TMPDIR
# (seen: codex's sandbox helpers).
j_found=' '
if [ "$2" ]; then
	if printf 'a\0b\0' | grep -zqxF b 2>/dev/null; then
		j_marked=$(grep -lszxF -e "FAIRLEAD_SESSION=$2" -e "TMPDIR=$1/tmp" /proc/[0-9]*/environ 2>/dev/null)
	else
		j_marked=$(for j_f in /proc/[0-9]*/environ; do
			{ tr '\n\000' '\001\n' <"$j_f" | grep -qxF -e "FAIRLEAD_SESSION=$2" -e "TMPDIR=$1/tmp"; } 2>/dev/null && echo "$j_f"
		done)
	fi
	for j_f in $j_marked; do
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
	while read -r j_p j_x j_session j_s; do
		[ "$j_session" = "$j_jpid" ] || continue
		# Where the job is gone its number may be a stranger's by now.
		[ "$j_live" ] || { [ "$j_until" ] && [ "$j_s" -le "$j_until" ]; } || continue
		j_found="$j_found$j_p "
	done <<J_ALL
$j_all
J_ALL
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

# By work directory or program below the folder.
j_esc=$(printf '%sx' "$j_real" | sed 's/[][*?\\]/\\&/g') j_esc=${j_esc%x}
if find / -maxdepth 0 -lname x >/dev/null 2>&1; then
	j_near=$(find /proc/[0-9]*/cwd /proc/[0-9]*/exe -maxdepth 0 \
		\( -lname "$j_esc" -o -lname "$j_esc/*" -o -lname "$j_esc (deleted)" \) 2>/dev/null)
else
	j_near=$(for j_f in /proc/[0-9]*/cwd /proc/[0-9]*/exe; do
		j_x=$(readlink "$j_f" 2>/dev/null) || continue
		case $j_x in "$j_real" | "$j_real"/* | "$j_real (deleted)") echo "$j_f" ;; esac
	done)
fi
# A person who logged in and looks around there is not what a session left:
# what codex started has no sshd above it, except one that it started itself.
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
	j_f=${j_f#/proc/}
	j_f=${j_f%/*}
	case $j_found in *" $j_f "*) continue ;; esac
	j_login "$j_f" || j_found="$j_found$j_f "
done

# By what they hold: who was started with a clean environment, went elsewhere
# and forked twice may still have its output in a journal. What an attachment
# consists of does too, and is of the session of the process that gave it its
# name; what is on its way out is gone a moment later. This looks at every open
# file of the host: once, and when nothing else is found.
j_holders() {
	case $j_real in
	*[!\ -~]*)
		# Some ls show such names otherwise.
		for j_x in "$j_dir" "$j_dir"/proc/*; do
			[ -e "$j_x/out.log" ] || continue
			for j_y in /proc/[0-9]*/fd/*; do
				[ "$j_y" -ef "$j_x/out.log" ] || [ "$j_y" -ef "$j_x/err.log" ] || [ "$j_y" -ef "$j_x/in" ] || continue
				j_y=${j_y#/proc/}
				echo "${j_y%%/*}"
			done
		done
		;;
	*)
		j_ls -ln /proc/[0-9]*/fd 2>/dev/null | LC_ALL=C grep -F -e /fd: -e " -> $j_real/" | while IFS= read -r j_x; do
			case $j_x in
			/proc/*/fd:)
				j_x=${j_x#/proc/}
				j_p=${j_x%/fd:}
				;;
			*/out.log | */err.log | */in | *'/out.log (deleted)' | *'/err.log (deleted)') echo "$j_p" ;;
			esac
		done
		;;
	esac
}
if [ "$3" = TERM ] || [ "$j_found$j_sups" = ' ' ]; then
	j_held=
	for j_f in $(j_holders); do
		case $j_found$j_spare$j_tied in *" $j_f "*) continue ;; esac
		j_stat "$j_f" || continue
		case " $j_sups" in *[!0-9]"$j_f $j_start"*) continue ;; esac
		case $j_tied in
		*" $j_session "*)
			j_ties="$j_ties$j_f $j_start
"
			;;
		*) j_login "$j_f" || j_held="$j_held $j_f" ;;
		esac
	done
	if [ "$j_held" ]; then
		j_nap 05
		for j_f in $(j_holders); do
			case "$j_held " in *" $j_f "*) case $j_found in *" $j_f "*) ;; *) j_found="$j_found$j_f " ;; esac ;; esac
		done
	fi
fi

# By descent from any of these.
j_more=y
while [ "$j_more" ]; do
	j_more=
	while read -r j_p j_x j_session j_s; do
		[ "$j_p" ] || continue
		case $j_found in *" $j_p "*) continue ;; esac
		case $j_found in *" $j_x "*) j_found="$j_found$j_p " j_more=y ;; esac
	done <<J_ALL
$j_all
J_ALL
done

while read -r j_p j_x j_session j_s; do
	[ "$j_p" ] || continue
	case $j_spare in *" $j_p "*) continue ;; esac
	case $j_found in *" $j_p "*) j_hit p "$j_p" "$j_s" "$3" ;; esac
done <<J_ALL
$j_all
J_ALL
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
