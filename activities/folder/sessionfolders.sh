# Lists the folders of sessions, with the generation that each says it is of: 0
# where it says none, nothing where it has only what taking its lock makes.
# Then the sessions that hold a room without such a folder, and the marks that nobody has written for a while. $1 the folder of the
# sessions, $2 a number of minutes, $3 how many folders to list, $4 the rooms.
if [ ! -d "$1" ]; then echo end; exit 0; fi
cd -- "$1" || exit 1
LC_ALL=C; export LC_ALL
n=0
for d in *; do
	if [ -h "$d" ] || [ ! -d "$d" ]; then continue; fi
	case $d in [!a-z0-9]* | *[!a-z0-9._-]*) echo odd; continue ;; esac
	g=0
	if [ -f "$d/generation" ]; then
		if IFS= read -r line <"$d/generation"; then
			g=${line#generation }
			case $g in "$line" | '' | *[!0-9]* | ???????????????????*) g=0 ;; esac
		fi
	elif [ ! -e "$d/codex-home" ] && [ ! -e "$d/work" ] && [ ! -e "$d/proc" ] && [ ! -h "$d/room" ]; then
		continue
	fi
	n=$((n + 1))
	if [ "$n" -gt "$3" ]; then echo more; break; fi
	echo "folder $d $g"
done
for h in "$4"/[0-7]/[0-7]/[0-7]/[0-7]/holder; do
	[ -h "$h" ] || continue
	d=$(readlink -- "$h") && d=${d#@} || continue
	case $d in '' | [!a-z0-9]* | *[!a-z0-9._-]*) echo odd; continue ;; esac
	if [ -h "$d/room" ] || [ -e "$d/generation" ] || [ -e "$d/codex-home" ] || [ -e "$d/work" ] || [ -e "$d/proc" ]; then continue; fi
	n=$((n + 1))
	if [ "$n" -gt "$3" ]; then echo more; break; fi
	echo "folder $d 0"
done
find . -prune -mmin +0 >/dev/null 2>&1 || echo ageless
find . -path './*/*' -prune -name generation -type f -mmin "+$2" -print 2>/dev/null # one may go meanwhile
echo end
