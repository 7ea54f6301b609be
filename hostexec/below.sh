# $1 folder, $2 path in it, $3 how many bytes at most, $4 a folder that is left out
# $5 where $1 begins, which alone may be reached through links, $6 the rest of it
LC_ALL=C; export LC_ALL
nl='
'
no() { printf 'no %s\n' "$*"; exit 0; }
held() { head -c "$size" </proc/self/fd/3; } # it may have grown since
whole() { "$@" && echo .; } # keeps line breaks at the end of what is said
cd -P -- "$5" 2>/dev/null || no folder
named=$(whole pwd -P); named=${named%??}
named=${named%/}/$6
cd -P -- "$1" 2>/dev/null || no folder
base=$(whole pwd -P); base=${base%??}
# Who owns a folder above it may have put a link in its place.
[ "$base" = "${named%/}" ] || no folder
[ "$base" != / ] || base=
[ -e "$2" ] || { [ -h "$2" ] && no dangling; no missing; }
[ ! -d "$2" ] || no directory
[ -f "$2" ] || no special
# Should there be a FIFO by now, opening it would never end.
me=$(exec /bin/sh -c 'echo "$PPID"')
( exec <&- >/dev/null 2>&1; sleep 20; kill -9 "$me" ) &
guard=$!
given() {
	kill "$guard" 2>/dev/null
	# From here on the path counts no more: what is open is looked at, and read.
	real=$(whole readlink /proc/self/fd/3); real=${real%??}
	[ "$real" ] || no unsupported
	case $real in "$base"/*) ;; *) no outside ;; esac
	case $real in *"$nl"*) no outside ;; esac
	if [ "$4" ] && out=$(cd -P -- "$4" 2>/dev/null && whole pwd -P); then
		out=${out%??}
		case $base/ in
		"$out"/*) ;;
		*) case $real in "$out"/*) no outside ;; esac ;;
		esac
	fi
	[ ! -d /proc/self/fd/3 ] || no directory
	[ -f /proc/self/fd/3 ] || no special
	before=$(stat -L -c '%s %y %z %i' /proc/self/fd/3) || no unsupported
	size=${before%% *}
	[ "$size" -le "$3" ] || no large "$size"
	if command -v sha256sum; then sum=$(held | sha256sum)
	elif command -v shasum; then sum=$(held | shasum -a 256)
	elif command -v openssl; then sum=$(held | openssl dgst -sha256 -r)
	else sum=-
	fi >/dev/null
	printf 'file %s %s %s\n' "$size" "${sum%% *}" "${real#"$base"/}"
	head -c "$size" <&3
	[ "$(stat -L -c '%s %y %z %i' /proc/self/fd/3)" = "$before" ] || echo changed >&2
}
opened=
{ opened=1; given "$@"; } 3<"$2" 2>&2
kill "$guard" 2>/dev/null
[ "$opened" ] || no unreadable
