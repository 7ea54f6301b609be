# Brings a git repository into a session's work folder. What stands there of an
# earlier try is removed first: nobody has worked there yet.
# $1 work folder, $2 URL, $3 ref, $4 depth or 0, $5 y with a token, $6 its user,
# $7 the server the token is for, $8 known hosts, $9 y with LFS
work=$1 url=$2 ref=$3 depth=$4 token=$5 user=$6 server=$7 known=$8
umask 022
say() { echo "fairlead: $*"; }
command -v git >/dev/null 2>&1 || { say "git is not installed"; exit 61; }
cd -P -- "$work" || exit 62
[ "$(pwd -P)" = "$work" ] || { say "$work leads to $(pwd -P)"; exit 62; }
find . ! -name . -prune -exec rm -rf -- {} + || exit 63

export GIT_TERMINAL_PROMPT=0 GCM_INTERACTIVE=never LC_ALL=C
GIT_SSH_COMMAND="ssh -oBatchMode=yes -oStrictHostKeyChecking=yes -oConnectTimeout=20 -oServerAliveInterval=15 -oServerAliveCountMax=3"
[ -z "$known" ] || GIT_SSH_COMMAND="$GIT_SSH_COMMAND -oUserKnownHostsFile='~/.ssh/known_hosts $known'"
export GIT_SSH_COMMAND

# With a token, no helper of the host's gets to see it, or to keep it.
export FL_GIT_USER="$user"
helper='!f() { [ "$1" = get ] || exit 0; IFS= read -r t <&7 || exit 0; echo "username=$FL_GIT_USER"; echo "password=$t"; }; f'
g() {
	if [ "$token" = y ]; then
		git -c credential.helper= -c "credential.$server.helper=$helper" -c http.lowSpeedLimit=100 -c http.lowSpeedTime=60 -c advice.detachedHead=false "$@"
	else
		git -c http.lowSpeedLimit=100 -c http.lowSpeedTime=60 -c advice.detachedHead=false "$@"
	fi
}
bring() {
	few=
	[ "$depth" = 0 ] || few="--depth=$depth"
	case $ref in
	*[!0-9a-f]*) named=y ;;
	????????????????????????????????????????) named= ;;
	????????????????????????????????????????????????????????????????) named= ;;
	*) named=y ;;
	esac
	if [ -n "$named" ]; then
		g clone $few ${ref:+--branch="$ref"} --recurse-submodules ${few:+--shallow-submodules} -- "$url" . || return
	else
		g init -q . && g remote add origin "$url" || return
		{ [ -n "$few" ] && g fetch $few origin "$ref"; } || g fetch origin '+refs/heads/*:refs/remotes/origin/*' --tags || return
		g checkout -q --detach "$ref" && g submodule update --init --recursive $few || return
	fi
	if git grep -q 'filter=lfs' -- .gitattributes '*/.gitattributes' 2>/dev/null; then
		if command -v git-lfs >/dev/null 2>&1; then
			g lfs install --local >/dev/null && g lfs pull || return
		else
			say "git-lfs is not installed: what it keeps is here as pointers"
		fi
	fi
	:
}
if [ "$token" = y ]; then
	# Each question is answered from a pipe that never runs dry, and that only
	# git holds. The token is in no argument, environment or file.
	IFS= read -r t <&7
	{ while echo "$t"; do :; done 2>/dev/null; } | { unset t; bring 7<&0 </dev/null; }
else
	bring
fi || exit
commit=$(git rev-parse -q --verify HEAD 2>/dev/null)
echo "fairlead-commit ${commit:-none}"
