# What a work folder is to git: $1 the folder, $2 a folder of ours. Nothing in
# the work folder changes.
set -u
umask 077
no() {
	printf '%s' "$1" >"$tmp/why"
	show why "$tmp/why"
	exit 0
}
cd -- "$1" || exit 1
mkdir -p "$2" && tmp=$(work_in "$2") || exit 1
trap 'rm -rf "$tmp"' EXIT

{ [ -d .git ] && [ ! -L .git ]; } || no 'it is not the top of a git repository of its own'
g rev-parse --git-dir >/dev/null 2>"$tmp/err" || no "git does not take it for a repository$(sed -n '1s/^/: /p' "$tmp/err")"
[ "$(g rev-parse --is-bare-repository)" = false ] || no 'its git repository is bare'
[ -z "$(g config core.worktree)" ] || no 'its git repository has its work tree elsewhere'
[ -z "$(g config extensions.partialclone)" ] || no 'its git repository is a partial clone'
[ ! -d .git/reftable ] || no 'its git repository keeps its refs in tables'
[ ! -e .git/info/grafts ] || no 'its git repository has grafts'
[ -z "$(ls -A .git/worktrees 2>/dev/null)" ] || no 'its git repository has further work trees'
g rev-parse -q --verify 'HEAD^{commit}' >/dev/null || no 'its branch has no commit yet'
[ -f .git/index ] || no 'its git repository has no index'

# The index first: all that follows is of it, whatever git does meanwhile.
mkdir "$tmp/dotgit" "$tmp/dotgit/info" "$tmp/dotgit/hooks" "$tmp/dotgit/logs" "$tmp/dotgit/logs/refs"
cp -p .git/index "$tmp/dotgit/" || exit 1
for f in sharedindex.* MERGE_HEAD MERGE_MSG MERGE_MODE SQUASH_MSG CHERRY_PICK_HEAD REVERT_HEAD REBASE_HEAD ORIG_HEAD AUTO_MERGE \
	BISECT_HEAD BISECT_START BISECT_LOG BISECT_TERMS BISECT_NAMES BISECT_ANCESTORS_OK BISECT_EXPECTED_REV BISECT_FIRST_PARENT \
	rebase-merge rebase-apply sequencer info/exclude info/attributes info/sparse-checkout logs/refs/stash; do
	for p in .git/$f; do
		[ ! -e "$p" ] || cp -R -p "$p" "$tmp/dotgit/${p#.git/}" || exit 1
	done
done
for p in .git/hooks/*; do
	case $p in *.sample | '.git/hooks/*') ;; *) cp -R -p "$p" "$tmp/dotgit/hooks/" || exit 1 ;; esac
done
GIT_INDEX_FILE="$tmp/dotgit/index"
export GIT_INDEX_FILE

g ls-files --stage -z | tr '\0\n' '\n\001' | grep -q '^160000 ' && no 'its git repository has submodules'
# Content that a program makes of what git keeps, such as that of LFS, need not
# come out the same elsewhere.
g config -z --name-only --get-regexp '^filter\..*\.(clean|smudge|process)$' | tr '\0\n' '\n\001' |
	sed 's/^filter\.//; s/\.[a-z]*$//' | sort -u >"$tmp/filters"
if [ -s "$tmp/filters" ]; then
	g ls-files -z | g check-attr -z --stdin filter | tr '\0\n' '\n\001' | awk 'NR % 3 == 0' | sort -u >"$tmp/used"
	used=$(comm -12 "$tmp/filters" "$tmp/used" | head -n 1)
	[ -z "$used" ] || no "its files go through the filter $used"
fi

report "$tmp" || exit 1
cat "$tmp"/dotgit/*_HEAD "$tmp"/dotgit/AUTO_MERGE "$tmp"/dotgit/BISECT_EXPECTED_REV "$tmp"/dotgit/rebase-*/orig-head "$tmp"/dotgit/rebase-*/orig_head \
	"$tmp"/dotgit/rebase-*/onto "$tmp"/dotgit/rebase-*/autostash "$tmp"/dotgit/rebase-*/stopped-sha "$tmp"/dotgit/rebase-*/amend \
	"$tmp"/dotgit/sequencer/head "$tmp"/dotgit/sequencer/abort-safety 2>/dev/null | grep -E '^[0-9a-f]{40}([0-9a-f]{24})?$' |
	g cat-file --batch-check='%(objectname)' | grep -v ' missing$' >"$tmp/heads"
{ g diff-index --cached --raw -z --no-renames --no-abbrev HEAD -- && g ls-files -u -z; } >"$tmp/differ" || exit 1
git config -z --list --local >"$tmp/config" || exit 1
[ ! -f .git/config.worktree ] || git config -z --list --worktree >>"$tmp/config"
for v in core.autocrlf core.eol core.safecrlf; do
	if value=$(git config "$v"); then printf '%s\n%s\0' "$v" "$value"; fi
done >"$tmp/effective"
git remote >"$tmp/remotes"
while IFS= read -r r; do printf '%s\n%s\0' "$r" "$(git ls-remote --get-url "$r")"; done <"$tmp/remotes" >"$tmp/urls"
find . -path ./.git -prune -o -type d -empty -print0 >"$tmp/empty" 2>/dev/null
g check-ignore -z --stdin <"$tmp/empty" >"$tmp/emptyignored"
git version >"$tmp/version"
g rev-parse --show-object-format >"$tmp/format" 2>/dev/null || echo sha1 >"$tmp/format"
# Of files with these bits the status does not say how they are.
hidden() { g ls-files -v -z | tr '\0\n' '\n\001' | sed -n "s/^$1 //p" | tr '\n\001' '\0\n'; }
hidden '[a-zS]' | xargs -0 sh -c 'for f; do if [ -e "$f" ] || [ -L "$f" ]; then printf "%s\0" "$f"; fi; done' sh >"$tmp/hidden"
hidden '[a-z]' | xargs -0 sh -c 'for f; do if [ -e "$f" ] || [ -L "$f" ]; then :; else printf "%s\0" "$f"; fi; done' sh >"$tmp/hiddengone"

# It is named for what is in it: what is the same as last time stays as it is, and
# does not travel again, and nothing is ever changed under that name. It is looked
# at all the same: a host may have lost its power, or somebody his patience.
named() {
	(cd "$1" && find . ! -type d -print0 | sort -z) >"$2" && (cd "$1" && xargs -0 sh -c 'for f; do
		printf "%s\0" "$f"
		[ ! -x "$f" ] || echo x
		if [ -h "$f" ]; then readlink "$f"; else wc -c <"$f" && cat "$f"; fi || exit 255
	done' sh <"$2") >"$tmp/all" && printf dotgit- && g hash-object --stdin <"$tmp/all" | cut -c1-16
}
name=$(named "$tmp/dotgit" "$tmp/files") && [ "$name" != dotgit- ] && mv "$tmp/dotgit" "$tmp/$name" && mkdir "$tmp/old" || exit 1
if [ "$(named "$2/$name" "$tmp/there" 2>/dev/null)" != "$name" ]; then
	find "$tmp/$name" -type f -exec sync {} + 2>/dev/null || sync
	mv "$2/$name" "$tmp/old/" 2>/dev/null # half of it, of somebody who died
	mv "$tmp/$name" "$2/" 2>/dev/null || [ -d "$2/$name" ] || exit 1
fi
# None is removed under its name, in the middle of which one may die.
for old in "$2"/dotgit*; do
	[ "$old" = "$2/$name" ] || mv "$old" "$tmp/old/" 2>/dev/null
done
printf %s "$name" >"$tmp/dotgit"
for f in head refs stash staged status heads differ config effective urls empty emptyignored version format hidden hiddengone dotgit files; do
	show "$f" "$tmp/$f" || exit 1
done
