# Follows workspace_git.sh with "push": commits what the work folder holds, on
# what was checked out there and on what this session pushed before, and pushes
# that. Done before, it finds that out, and does nothing.
# $6 URL, $7 branch, $8 session, $9 y with a token; then its user, the server it
# is for, known hosts, message, who asked
url=$6 branch=$7 session=$8 token=$9
shift 9
user=$1 server=$2 known=$3 message=$4 by=$5
HOME=$real
unset GIT_CONFIG_GLOBAL GIT_CONFIG_NOSYSTEM XDG_CONFIG_HOME # who logs in there by himself may
GIT_SSH_COMMAND="ssh -oBatchMode=yes -oStrictHostKeyChecking=yes -oConnectTimeout=20 -oServerAliveInterval=15 -oServerAliveCountMax=3"
[ -z "$known" ] || GIT_SSH_COMMAND="$GIT_SSH_COMMAND -oUserKnownHostsFile='~/.ssh/known_hosts $known'"
export GIT_SSH_COMMAND
export GIT_AUTHOR_NAME="${name:-${by:-Fairlead}}" GIT_AUTHOR_EMAIL="${mail:-fairlead@localhost}"
export GIT_COMMITTER_NAME="$GIT_AUTHOR_NAME" GIT_COMMITTER_EMAIL="$GIT_AUTHOR_EMAIL"
export FL_GIT_USER="$user"
helper='!f() { [ "$1" = get ] || exit 0; IFS= read -r t <&7 || exit 0; echo "username=$FL_GIT_USER"; echo "password=$t"; }; f'
# What talks to the server, and nothing else, has the token.
g() {
	if [ "$token" = y ]; then
		command git -c core.hooksPath=/dev/null -c credential.helper= -c "credential.$server.helper=$helper" -c http.lowSpeedLimit=100 -c http.lowSpeedTime=60 "$@"
	else
		git -c core.hooksPath=/dev/null -c http.lowSpeedLimit=100 -c http.lowSpeedTime=60 "$@"
	fi
}
# head_there says which commit the work folder's HEAD is. No git is run in its
# .git, whose configuration may have it fetch what is not there from a program.
head_there() (
	cd -P -- "$work/.git" 2>/dev/null && [ ! -h "$work/.git" ] || return 1
	at=HEAD
	for hop in 1 2 3 4 5; do
		line=
		[ ! -f "$at" ] || IFS= read -r line <"$at"
		[ -n "$line" ] || [ ! -f packed-refs ] || line=$(at=$at awk '$2 == ENVIRON["at"] { print $1; exit }' packed-refs)
		case $line in
		"ref: "*..*) return 1 ;;
		"ref: refs/"*) at=${line#ref: } ;;
		"" | *[!0-9a-f]*) return 1 ;;
		*) printf '%s\n' "$line" && return 0 ;;
		esac
	done
	return 1
)
send() {
	if git grep -q --no-recurse-submodules --cached 'filter=lfs' -- .gitattributes '*/.gitattributes' 2>/dev/null; then
		say "the repository keeps files with git-lfs, which this does not push"
		return 64
	fi
	if [ -d "$work/.git/reftable" ]; then
		say "the repository keeps its refs in reftable, which this does not read"
		return 64
	fi
	there=$(g ls-remote -- "$url" "refs/heads/$branch") || return
	there=${there%%	*}
	ours=
	if [ -n "$there" ]; then
		g fetch -q --no-tags --no-recurse-submodules -- "$url" "refs/heads/$branch" || return
		case $(git log -1 --format=%B "$there") in *"Fairlead-Session: $session"*) ours=$there ;; esac
	fi
	head=$(head_there) && git cat-file -e "$head^{commit}" 2>/dev/null || head=
	if [ -n "$ours" ] && [ "$(git rev-parse "$ours^{tree}")" = "$tree" ] && { [ -z "$head" ] || git merge-base --is-ancestor "$head" "$ours"; }; then
		commit=$ours
	elif [ -z "$ours" ] && [ -n "$head" ] && [ "$(git rev-parse "$head^{tree}")" = "$tree" ]; then
		commit=$head
	else
		parents=
		if [ -n "$ours" ] && [ -n "$head" ] && git merge-base --is-ancestor "$head" "$ours"; then parents="-p $ours"
		elif [ -n "$ours" ] && [ -n "$head" ] && ! git merge-base --is-ancestor "$ours" "$head"; then parents="-p $ours -p $head"
		elif [ -n "$head" ]; then parents="-p $head"
		elif [ -n "$ours" ]; then parents="-p $ours"
		fi
		commit=$(printf '%s\n\nFairlead-Session: %s\n' "$message" "$session" | git commit-tree "$tree" $parents) || return
	fi
	if [ "$there" = "$commit" ]; then
		echo "fairlead-already $commit"
		return
	fi
	g push -q --no-recurse-submodules -- "$url" "$commit:refs/heads/$branch" || return
	echo "fairlead-pushed $commit"
}
if [ "$token" = y ]; then
	IFS= read -r t <&7
	{ while echo "$t"; do :; done 2>/dev/null; } | { unset t; send 7<&0 </dev/null; }
else
	send
fi
