# Standard input has one absolute path a line; \\ is a backslash and \n a newline.
# For each path two words are printed, each with a NUL after it: the path with its folder
# resolved, and the path itself resolved. What does not exist keeps its name. The last word
# is "." if all went well, or why it did not.
LC_ALL=C; export LC_ALL
set -f
whole() { "$@" && echo .; } # keeps line breaks at the end of what is said
word() { printf '%s\000' "$1"; }
no() { word "no $1"; exit 0; }
# walk follows $2 from the folder $1, which has no links and is empty for the root. It sets
# at. links counts the links of one path.
walk() {
	at=$1 rest=$2
	while [ "$rest" ]; do
		case $rest in
		*/*) name=${rest%%/*} rest=${rest#*/} ;;
		*) name=$rest rest= ;;
		esac
		case $name in
		'' | .) continue ;;
		..) at=${at%/*}; continue ;;
		esac
		# A longer path may be more than the system's calls take, and a folder that
		# cannot be searched does not show its links.
		[ "$((${#at} + ${#name}))" -lt 1000 ] || no long
		[ ! -d "$at/" ] || [ -x "$at/" ] || no hidden
		if [ ! -h "$at/$name" ]; then
			at=$at/$name
			continue
		fi
		links=$((links + 1))
		[ "$links" -le 40 ] || no loop
		# Such a link leads each process elsewhere.
		case $at/ in /proc/*) no process ;; esac
		to=$(whole readlink "$at/$name") || no unread
		to=${to%??}
		[ "$to" ] || no unread
		case $to in /*) at= ;; esac
		rest=$to/$rest
	done
}
folder=/ found=
while IFS= read -r path; do
	case $path in *\\*) path=$(printf '%b.' "$path"); path=${path%.} ;; esac
	while :; do
		case $path in
		?*/) path=${path%/} ;;
		*) break ;;
		esac
	done
	last=${path##*/}
	case $last in
	'' | . | ..)
		links=0
		walk '' "$path"
		word "${at:-/}"
		word "${at:-/}"
		continue ;;
	esac
	# Files of one folder often follow each other.
	if [ "${path%/*}" != "$folder" ]; then
		folder=${path%/*} links=0
		walk '' "$folder"
		found=$at spent=$links
	fi
	links=${spent:-0}
	word "$found/$last"
	walk "$found" "$last"
	word "${at:-/}"
done
word .
