package hostexec

import (
	"context"
	"fmt"
	"path"
	"strings"
)

// removeScript removes $1, which must lie below $2. The folder that holds $1
// is entered first and asked where it is: what happens to the path afterwards
// leads nowhere else.
//
// $3 is the fence's folder: where neither is there, none is made.
const removeScript = `LC_ALL=C; export LC_ALL
refuse() { echo "refused: $1" >&2; exit 1; }
gone() { [ ! -e "$1" ] && [ ! -L "$1" ]; }
if gone "$1" && { [ "$3" = / ] || gone "$3"; }; then exit 0; fi
%[1]s
d=${1%%/*} b=${1##*/} w=$2
if ! gone "$1"; then
	w=$(cd -P -- "$w/" && pwd -P && echo .) || exit 1
	w=${w%%??}
	cd -P -- "$d/" || exit 1
	here=$(pwd -P && echo .) || exit 1
	here=${here%%??}
	case $here/ in "$w"/*) ;; *) refuse "$1 is $here/$b, which is not below $w" ;; esac
	home=$(cd -P 2>/dev/null && pwd -P && echo .) && case ${home%%??}/ in "$here/$b"/*) refuse "$here/$b holds the user's home" ;; esac
	rm -rf -- "./$b" 2>/dev/null || {
		# Folders without write permission, or somebody who still writes.
		find "./$b" -type d -exec chmod u+rwx {} \; 2>/dev/null
		rm -rf -- "./$b" 2>/dev/null || rm -rf -- "./$b"
	}
	gone "./$b" || { echo "$1 is still there" >&2; exit 1; }
fi
%[2]s`

// rememberScript keeps the epoch of a session whose folder is gone beside it,
// for a month, so that a late script of a former holder does not bring it back.
const rememberScript = `if [ ! -e "$fl_d/epoch" ] && [ -d "${fl_d%%/*}" ]; then
	rm -f -- "$fl_d/lock"
	echo "%d %d %d" >"$fl_gone"
	find "${fl_d%%/*}/" -maxdepth 1 -name '.gone-*' -mtime +30 -exec rm -f -- {} + 2>/dev/null
fi
fl_unlock`

// RemoveTree removes path, which must lie below within (also through
// symlinks), and proves that it is gone. A path that is not there is success.
// A symlink is removed, not followed; what holds the user's home is refused.
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
	if err := checkPath(target); err != nil {
		return Command{}, err
	}
	if err := checkPath(within); err != nil {
		return Command{}, err
	}
	if !strings.HasPrefix(path.Dir(target)+"/", within+"/") {
		return Command{}, fmt.Errorf("it does not lie below %s", within)
	}
	lock, unlock, fenceDir := "", "", "/"
	if fence != nil {
		if err := fence.check(); err != nil {
			return Command{}, err
		}
		lock, fenceDir = fencePrologue(*fence), fence.Dir
		unlock = fmt.Sprintf(rememberScript, fence.Epoch.Generation, fence.Epoch.Pump, fence.Epoch.Attempt)
	}
	return Command{Script: fmt.Sprintf(removeScript, lock, unlock), Args: []string{target, within, fenceDir}}, nil
}
