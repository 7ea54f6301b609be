# Looks at a session's work folder with a git of our own: whoever worked there
# may have written what he likes into the folder's .git, and nothing of its
# configuration, hooks or filters is used. Of it we take objects, and where HEAD is.
# $1 what: diff, keep, push; $2 work folder, $3 a folder for our own git, where
# whoever works there cannot write (removed at the end, unless it is to be kept), $4 base: a commit, a tree, or empty;
# $5 another folder with objects, or empty
what=$1 work=$2 own=$3 base=$4 more=$5
umask 077
say() { echo "fairlead: $*" >&2; }
command -v git >/dev/null 2>&1 || { say "git is not installed"; exit 61; }
# Descriptor 7 may have a git token, which no program here is to find.
git() { command git "$@" 7<&-; }
name=$(git config --global user.name) mail=$(git config --global user.email)
# It is made here: of one that was there nobody knows what its configuration says.
mkdir -p -- "${own%/*}" && rm -rf -- "$own" && mkdir -- "$own" || exit 1
[ "$what" = keep ] || trap 'rm -rf -- "$own"' EXIT
cd -P -- "$work" || exit 62
# A home of our own, too; only ssh needs the real one, and takes it from elsewhere.
real=$HOME
export GIT_DIR="$own/git" GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null XDG_CONFIG_HOME="$own" HOME="$own" LC_ALL=C GIT_TERMINAL_PROMPT=0 GIT_OPTIONAL_LOCKS=0
git init -q --bare "$GIT_DIR" && git config core.bare false && git config gc.auto 0 || exit 1
# Nobody asks the work folder's .git for its refs: that is a git with its configuration.
git config core.alternateRefsCommand : || exit 1
export GIT_WORK_TREE="$work"
{
	[ ! -d "$work/.git/objects" ] || [ -h "$work/.git" ] || echo "$work/.git/objects"
	[ -z "$more" ] || [ ! -d "$more/git/objects" ] || echo "$more/git/objects"
} >"$GIT_DIR/objects/info/alternates"
if [ -f "$work/.git/shallow" ] && [ ! -h "$work/.git/shallow" ]; then cp -- "$work/.git/shallow" "$GIT_DIR/shallow" || exit 1; fi
empty=$(git hash-object -t tree --stdin </dev/null) && git hash-object -w -t tree --stdin </dev/null >/dev/null || exit 1
[ -n "$base" ] || base=$empty
git cat-file -e "$base^{tree}" 2>/dev/null || { say "the start, $base, is not here any more"; exit 63; }
git read-tree "$base" || exit 1
# A submodule that the index knows is looked at by a git in there, with the
# configuration that it has there. One that it does not know is added by its HEAD.
# A folder where one was, without a .git, is one that was never brought.
git -c core.quotePath=false ls-files -s | grep '^160000 ' >"$own/parts"
sed 's/^160000 \([0-9a-f]*\) 0/0 \1 0/' "$own/parts" | git update-index --index-info || exit 1
git -c advice.addEmbeddedRepo=false add -A . 2>"$own/said" || { cat "$own/said" >&2; exit 1; }
while IFS= read -r line; do
	part=${line#*	}
	if [ -d "$part" ] && [ ! -h "$part" ] && [ -z "$(git ls-files -- ":(top,literal)$part" | head -n 1)" ]; then printf '%s\n' "$line"; fi
done <"$own/parts" | git update-index --index-info || exit 1
tree=$(git write-tree) || exit 1
case $what in
keep) echo "$tree" ;;
diff) git diff-tree -r -p --binary --full-index --no-renames --no-ext-diff --no-textconv "$base^{tree}" "$tree" ;;
esac
