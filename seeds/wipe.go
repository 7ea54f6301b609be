package seeds

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"fairlead.dev/fairlead/hostexec"
)

// ErrNotWiped means that a credential is, or may be, on the host after Wipe.
var ErrNotWiped = errors.New("credentials are not proven gone")

// wipeScript removes auth.json, config.toml, the token for the model gateway, leftovers of unfinished writes (ours and
// codex's) and the tokens of MCP servers. It prints the files that it still finds, or
// "wiped".
//
// $1 session folder, $2 CODEX_HOME.
const wipeScript = `LC_ALL=C; export LC_ALL
absent() { [ ! -e "$1" ] && [ ! -L "$1" ]; }
if absent "$1" || absent "$2"; then echo wiped; exit 0; fi
within=$(cd -P -- "$1" && pwd -P && echo .) && cd -P -- "$2" && home=$(pwd -P && echo .) || exit 1
within=${within%
.} home=${home%
.}
case $home in "$within"/*) ;; *) echo "$2 leads out of $1: to $home" >&2; exit 1 ;; esac
left() {
	for f in auth.json* .auth.json* config.toml* .config.toml* model-token* .model-token* .credentials.json* .fl-* .tmp??????; do
		absent "$f" || printf '%s\n' "$f"
	done
}
rm -rf -- auth.json* .auth.json* config.toml* .config.toml* model-token* .model-token* .credentials.json* .fl-* .tmp??????
sync . 2>/dev/null || sync
found=$(left)
[ -n "$found" ] || echo wiped
printf '%s\n' "$found"`

// Wipe removes the credentials from a CODEX_HOME. Nil means that it looked again and found
// none. Any error wraps ErrNotWiped, and hostexec.ErrOutcomeUnknown if no answer came. Wipe
// may be repeated. The caller must have stopped codex and saved a rotated token.
func Wipe(ctx context.Context, h hostexec.Host, codexHome, within string, fence *hostexec.Fence) error {
	err := wipe(ctx, h, codexHome, within, fence)
	if err != nil {
		return fmt.Errorf("wipe %s on %s: %w: %w", codexHome, h.Name(), ErrNotWiped, err)
	}
	return nil
}

func wipe(ctx context.Context, h hostexec.Host, codexHome, within string, fence *hostexec.Fence) error {
	for _, p := range []string{codexHome, within} {
		if !path.IsAbs(p) || path.Clean(p) != p {
			return fmt.Errorf("%q is not a clean absolute path", p)
		}
	}
	if !below(codexHome, within) {
		return fmt.Errorf("%s does not lie in %s", codexHome, within)
	}
	r, err := h.Run(ctx, hostexec.Command{Script: wipeScript, Args: []string{within, codexHome}, Fence: fence})
	if err != nil {
		return err
	}
	if out := strings.TrimSpace(string(r.Stdout)); out != "wiped" {
		return fmt.Errorf("still there: %s", strings.Join(strings.Fields(out), ", "))
	}
	return nil
}
