# A repository as it was: $1 the tree Git, $2 what is laid over, $3 the folder to
# make, $4 what we have made of the state. Says what came of it. What a former
# call has made is removed; it may still be at work in a folder of its own.
set -u
overlay=$2 in=$4
fail() { # status, remote, why
	printf '%s' "$2" >"$in/remote" && show remote "$in/remote"
	show why "$3"
	exit "$1"
}
err=$in/err
: >"$err" || exit 1
# Not every complaint of git's says that the disk is full, and what it could not
# write whole it takes away again.
full() {
	r=$?
	case $r in 0 | 60 | 61 | 62) return ;; esac
	left=$(df -kP "$in" 2>/dev/null | awk 'END { print $4 }')
	[ "${left:-99999}" -ge 16384 ] || echo "No space left on device: $left KiB" >&2
}
trap full EXIT
GIT_SSH_COMMAND='ssh -o BatchMode=yes -o ConnectTimeout=30' GIT_HTTP_LOW_SPEED_LIMIT=1 GIT_HTTP_LOW_SPEED_TIME=60
export GIT_SSH_COMMAND GIT_HTTP_LOW_SPEED_LIMIT GIT_HTTP_LOW_SPEED_TIME
objects=$(cat "$in/objects")
if [ "$objects" = sha1 ]; then set -- "$1" "$3"; else set -- "$1" "$3" "--object-format=$objects"; fi
parts=$1 new=$2
shift 2
for old in "${in%/*/*}"/made-*; do
	[ "$old/in" = "$in" ] || rm -rf -- "$old"
done
rm -rf -- "$new"
g init -q --template= "$@" -- "$new" && cd -- "$new" || exit 1
cat "$in/config" >>.git/config || exit 1

while IFS= read -r r; do
	for pause in 1 4 -; do # a line may be bad for a moment
		g fetch -q --no-tags --no-write-fetch-head --no-recurse-submodules --refmap= "$r" "+refs/heads/*:refs/fl/heads/$r/*" "+refs/tags/*:refs/fl/tags/$r/*" 2>"$err" && break
		[ "$pause" != - ] || fail 61 "$r" "$err"
		sleep "$pause"
	done
done <"$in/remotes"
g index-pack --stdin <"$parts/$(cat "$in/pack")" >/dev/null 2>"$err" || { cat "$err" >&2; exit 1; }
all_there() { { cat "$in/want"; g for-each-ref --format='^%(objectname)' refs/fl; } | g rev-list --objects --quiet --stdin 2>"$err"; }
# Commits that upstream had and that none of its branches reaches any more are
# asked for by name; not every server gives them.
lacking() {
	g cat-file --batch-check='%(objectname)' <"$in/tips" | sed -n 's/ missing$//p' >"$in/lacking"
	[ -s "$in/lacking" ]
}
if lacking; then
	while IFS= read -r r; do
		while IFS= read -r sha; do
			g fetch -q --no-tags --no-write-fetch-head --refmap= "$r" "$sha:refs/fl/gone/$sha" 2>/dev/null
		done <"$in/lacking"
	done <"$in/remotes"
	lacking
fi
all_there || fail 62 "$(head -n 1 "$in/remotes")" "$err"

# A remote-tracking ref that upstream has no more, and that nothing is built on,
# is not made again.
g cat-file --batch-check='%(objectname)' <"$in/tips" | sed -n 's/ missing$//p' >"$in/gone"
if [ -s "$in/gone" ]; then grep -v -F -f "$in/gone" "$in/refs" >"$in/refs.left"; else cp "$in/refs" "$in/refs.left"; fi
g update-ref --stdin <"$in/refs.left" || exit 1
while read -r ref target; do
	g symbolic-ref "$ref" "$target" || exit 1
done <"$in/symrefs"
head=$(cat "$in/head")
case $head in
refs/*) g symbolic-ref HEAD "$head" ;;
*) printf '%s\n' "$head" >.git/HEAD ;;
esac || exit 1
cp -R -p "$parts/$(cat "$in/dotgit")/." .git/ || exit 1
g for-each-ref --format='delete %(refname)' refs/fl | g update-ref --stdin || exit 1

g checkout-index -q -f -a -u || exit 1
if [ -s "$in/deleted" ]; then
	xargs -0 sh -c 'for f; do
		rm -rf -- "$f"
		rmdir -p -- "${f%/*}" 2>/dev/null
	done' sh <"$in/deleted"
fi
if [ -d "$overlay" ]; then
	(cd -- "$overlay" && tar cf - .) | tar xpf - || exit 1
fi
g update-index -q --refresh >/dev/null 2>&1
rm -rf "$in/now" && mkdir "$in/now" && report "$in/now" || exit 1
for f in head refs stash staged status; do show "$f" "$in/now/$f" || exit 1; done
