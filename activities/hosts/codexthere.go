package hosts

import (
	"context"
	"fmt"
	"path"
	"strings"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
)

// findScript prints the version and the path of each codex that runs from the usual places.
// For npm's node script it prints the program that the script starts, so that sessions need
// no node.
const findScript = `try() {
	[ -x "$1" ] || return 1
	real=$(readlink -f -- "$1" 2>/dev/null) || real=$1
	case $(head -c 2 -- "$real" 2>/dev/null) in
	'#!')
		pkg=${real%/*}/..
		for c in "$pkg"/node_modules/@openai/codex-*/vendor/*/bin/codex "$pkg"/../codex-*/vendor/*/bin/codex \
			"$pkg"/vendor/*/codex/codex "$pkg"/../codex-*/vendor/*/codex/codex "$pkg"/node_modules/@openai/codex-*/vendor/*/codex/codex; do
			[ -x "$c" ] && real=$(readlink -f -- "$c" 2>/dev/null || echo "$c") && break
		done
		;;
	esac
	v=$("$real" --version 2>/dev/null </dev/null) || return 1
	sib=no
	[ ! -x "${real%/*}/codex-code-mode-host" ] || sib=yes
	echo "codex $sib $(echo "$v" | tail -n 1 | tr ' ' '_') $real"
}
mark=fl$$
{
	command -v codex 2>/dev/null
	sh -lc 'echo '$mark'; command -v codex' 2>/dev/null </dev/null | sed "1,/$mark/d"
	[ -z "$SHELL" ] || "$SHELL" -lc 'command -v codex' 2>/dev/null </dev/null
	for d in "$HOME/.local/bin" "$HOME/.npm-global/bin" "$HOME/.codex/bin" "$HOME/.volta/bin" "$HOME/.bun/bin" \
		/usr/local/bin /opt/homebrew/bin /usr/bin /snap/bin; do echo "$d/codex"; done
} | while IFS= read -r c; do
	case $c in /*/codex) ;; *) continue ;; esac
	case $seen in *"|$c|"*) continue ;; esac
	seen="$seen|$c|"
	try "$c"
done
:`

type foundCodex struct {
	Path, Version string
	Siblings      bool // codex-code-mode-host lies beside it
}

func findCodex(ctx context.Context, h hostexec.Host) ([]foundCodex, error) {
	res, err := h.Run(ctx, hostexec.Command{Script: findScript})
	if err != nil {
		return nil, fmt.Errorf("look for codex: %w", err)
	}
	var found []foundCodex
	for line := range strings.Lines(string(res.Stdout)) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
		if len(f) == 4 && f[0] == "codex" && path.IsAbs(f[3]) {
			found = append(found, foundCodex{Path: f[3], Version: plainVersion(f[2]), Siblings: f[1] == "yes"})
		}
	}
	return found, nil
}

// usable returns why a codex that was found cannot be used. The tested version needs
// codex-code-mode-host beside it.
func usable(s *site.Site, f foundCodex) error {
	if err := inWindow(s, f.Version); err != nil {
		return err
	}
	if f.Version == NewestCodex && !f.Siblings {
		return fmt.Errorf("codex %s is incomplete: codex-code-mode-host is not beside it", f.Version)
	}
	return nil
}

// codexThere chooses a codex that the host has: a provisioned tree before one that somebody
// installed.
func codexThere(ctx context.Context, s *site.Site, h hostexec.Host, root string, m Machine, why error) (protocol.ProvisionCodexResult, error) {
	var best protocol.ProvisionCodexResult
	for name, st := range m.Stamps {
		if inWindow(s, st.Version) != nil {
			continue
		}
		have, _ := kit.ParseVersion(best.Version)
		if v, _ := kit.ParseVersion(st.Version); best.Path == "" || kit.Less(have, v) {
			best = protocol.ProvisionCodexResult{Path: path.Join(root, "codex", name, "bin", "codex"), Version: st.Version,
				How: "present", Digest: st.Digest, Bytes: st.Bytes}
		}
	}
	if best.Path != "" {
		return best, nil
	}
	found, err := findCodex(ctx, h)
	if err != nil {
		return protocol.ProvisionCodexResult{}, err
	}
	var not []string
	for _, f := range found {
		err := usable(s, f)
		if err == nil {
			return protocol.ProvisionCodexResult{Path: f.Path, Version: f.Version, How: "found"}, nil
		}
		not = append(not, fmt.Sprintf("%s: %v", f.Path, err))
	}
	if len(not) > 0 {
		return protocol.ProvisionCodexResult{}, &kit.TypedError{Kind: protocol.ErrTypeCodexVersion, Hint: hintNoCodex,
			Err: fmt.Errorf("%w; what the host has cannot be used: %s", why, strings.Join(not, "; "))}
	}
	return protocol.ProvisionCodexResult{}, &kit.TypedError{Kind: protocol.ErrTypeCodexMissing, Hint: hintNoCodex,
		Err: fmt.Errorf("%w; the host has no codex either", why)}
}
