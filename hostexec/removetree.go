package hostexec

import (
	"context"
	"fmt"
	"path"
	"strings"

	"fairlead.dev/fairlead/hostexec/internal/script"
)

// removeScript removes $1, which must lie below $2. It changes into the parent folder and
// checks its working directory, so that later changes of the path cannot redirect it.
//
// $3 is the fence's folder. If neither $1 nor $3 exists, the script creates nothing. If $3
// is removed with $1, the lock goes too, and another holder could create a new one. So the
// script first writes the epoch beside the folder, and then renames the folder out of the
// way of other holders. Only the renamed folder is removed, with what earlier calls left of
// it.
const removeScript = `LC_ALL=C; export LC_ALL
refuse() { echo "refused: $1" >&2; exit 1; }
gone() { [ ! -e "$1" ] && [ ! -L "$1" ]; }
d=${1%%/*} b=${1##*/} w=$2 a=
case $3/ in "$1"/*) a=` + removing + `$b ;; esac
if gone "$1" && { [ "$3" = / ] || gone "$3"; } && { [ -z "$a" ] || gone "$d/$a"; }; then exit 0; fi
erase() {
	rm -rf -- "./$1" 2>/dev/null || {
		# Folders without write permission, or somebody who still writes.
		find "./$1" -type d -exec chmod u+rwx {} \; 2>/dev/null
		rm -rf -- "./$1" 2>/dev/null || rm -rf -- "./$1" 2>&1 | sed -n 1,20p >&2
	}
}
# aside renames the folder. Where what an earlier call left has that name, the
# folder goes into it; that may be removed by somebody meanwhile.
aside() {
	[ ! -L "./$a" ] || rm -f -- "./$a"
	n=0
	while [ $n -lt 20 ]; do
		if gone "./$a"; then
			mv -f -- "./$b" "./$a"
			return
		fi
		chmod u+rwx "./$a" 2>/dev/null
		mv -f -- "./$b" "./$a/$$.$n" 2>/dev/null && return
		n=$((n + 1))
	done
	mv -f -- "./$b" "./$a/$$.$n"
}
%[1]s
if ! gone "$1"; then
	w=$(cd -P -- "$w/" && pwd -P && echo .) || exit 1
	w=${w%%??}
	cd -P -- "$d/" || exit 1
	here=$(pwd -P && echo .) || exit 1
	here=${here%%??}
	case $here/ in "$w"/*) ;; *) refuse "$1 is $here/$b, which is not below $w" ;; esac
	home=$(cd -P 2>/dev/null && pwd -P && echo .) && case ${home%%??}/ in "$here/$b"/*) refuse "$here/$b holds the user's home" ;; esac
	if [ "$a" ]; then
		%[2]s
		aside || exit 1
		fl_leave
		b=$a
	fi
	erase "$b"
	gone "./$b" || { echo "$here/$b is still there" >&2; exit 1; }
fi
%[3]s`

const removing = ".removing-"

const buryScript = `[ "$fl_d" != "$1" ] || fl_bury "%d %d %d" || exit 1`

// endScript ends the removal under a fence. If the lock was removed too, it also removes
// epochs older than a month, and folders that unfinished removals left more than an hour
// ago.
const endScript = `if [ -z "$a" ]; then
	fl_unlock
else
	find ./ -maxdepth 1 -name '.gone-*' -mtime +30 -exec rm -f -- {} + 2>/dev/null
	for x in ./` + removing + `*; do
		[ -z "$(find "$x" -prune -mmin +60 2>/dev/null)" ] || erase "${x#./}" 2>/dev/null
	done
	:
fi`

// RemoveTree removes path and verifies that it is gone. path must lie below within, also
// after its symlinks are resolved. A missing path is no error. A symlink is removed, not
// followed. A folder that contains the user's home is refused. If the fence's folder is
// removed too, its epoch is kept beside it for a month, so that former holders are still
// refused.
func RemoveTree(ctx context.Context, h Host, path, within string, fence *Fence) error {
	c, err := removeCommand(path, within, fence)
	if err == nil {
		_, err = h.Run(ctx, c)
	}
	if err != nil {
		return fmt.Errorf("remove %s on %s: %w", path, h.Name(), err)
	}
	return nil
}

func removeCommand(target, within string, fence *Fence) (Command, error) {
	if err := script.CheckPath(target); err != nil {
		return Command{}, err
	}
	if err := script.CheckPath(within); err != nil {
		return Command{}, err
	}
	if !strings.HasPrefix(path.Dir(target)+"/", within+"/") {
		return Command{}, fmt.Errorf("the path does not lie below %s", within)
	}
	lock, bury, end, fenceDir := "", "", "", "/"
	if fence != nil {
		if err := fence.Check(); err != nil {
			return Command{}, err
		}
		lock, fenceDir = fencePrologue(*fence), fence.Dir
		bury = fmt.Sprintf(buryScript, fence.Epoch.Generation, fence.Epoch.Pump, fence.Epoch.Attempt)
		end = endScript
	}
	return Command{Script: fmt.Sprintf(removeScript, lock, bury, end), Args: []string{target, within, fenceDir}}, nil
}
