# How we run git in a folder that is somebody else's: nothing of their
# environment, no program that their configuration names, nothing written that
# is not asked for, nobody asked for a password.
command -v git >/dev/null 2>&1 || exit 60
for v in $(git rev-parse --local-env-vars); do unset "$v"; done
LC_ALL=C GIT_OPTIONAL_LOCKS=0 GIT_NO_LAZY_FETCH=1 GIT_NO_REPLACE_OBJECTS=1 GIT_TERMINAL_PROMPT=0 GIT_ASKPASS=false SSH_ASKPASS=false
export LC_ALL GIT_OPTIONAL_LOCKS GIT_NO_LAZY_FETCH GIT_NO_REPLACE_OBJECTS GIT_TERMINAL_PROMPT GIT_ASKPASS SSH_ASKPASS
g() { git -c core.fsmonitor=false -c core.hooksPath=/dev/null -c gc.auto=0 -c maintenance.auto=false "$@"; }
report() {
	g symbolic-ref -q HEAD >"$1/head" || g rev-parse -q --verify HEAD >"$1/head"
	g for-each-ref --format='%(objectname) %(refname) %(symref)' >"$1/refs" || return 1
	if g rev-parse -q --verify refs/stash >/dev/null; then g log -g --format=%H refs/stash -- >"$1/stash" || return 1; else : >"$1/stash"; fi
	g ls-files --stage -z | g hash-object --stdin >"$1/staged" || return 1
	g status --porcelain=v2 -z --untracked-files=all --no-renames --no-branch --no-ahead-behind >"$1/status" || return 1
}
show() { printf '%s %s\n' "$1" "$(($(wc -c <"$2")))" && cat "$2"; }
# A folder to work in, in $1: it says whose it is. Others may be at work in there,
# attempts that we were taken for, or that were taken for us; what somebody left
# who has died nobody needs. He is asked for where that can be known, and where it
# cannot, as of a host that shares the folder, what was written within the hour.
work_in() {
	for old in "$1"/tmp.*; do
		who=${old#"$1"/tmp.}
		if ! kill -0 "${who%%.*}" 2>/dev/null && [ -z "$(find "$old" -mmin -60 2>/dev/null | head -n 1)" ]; then rm -rf "$old"; fi
	done
	mktemp -d "$1/tmp.$$.XXXXXX"
}
# What was written is on the disk before it gets the name by which it is known.
flush() { sync "$@" 2>/dev/null || sync; }
