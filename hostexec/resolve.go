package hostexec

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"fairlead.dev/fairlead/hostexec/internal/script"
)

//go:embed resolve.sh
var resolveScript string

// Bounds of ResolvePaths.
const (
	MaxResolve      = 1000      // paths
	MaxResolveBytes = 256 << 10 // of all paths
	ResolveTime     = 20 * time.Second
)

// A RealPath is where a path leads on a host. It has no links, "." or "..". Parts that do
// not exist keep their names.
type RealPath struct {
	// Entry has the folder resolved, but not the last name. A call that removes or renames
	// the path changes Entry.
	Entry string
	// Target has the last name resolved, too. A call that writes to the path writes there.
	Target string
}

// An UnresolvedError says why the host cannot say where a path leads.
type UnresolvedError struct{ Why string }

func (e *UnresolvedError) Error() string { return e.Why }

var unresolved = map[string]string{
	"loop":    "a path leads through more than 40 symbolic links, perhaps in a circle",
	"long":    "a path is longer than 1000 bytes once its links are resolved",
	"hidden":  "a path leads through a folder that cannot be searched",
	"process": "a path leads through a link of /proc, which differs between processes",
	"unread":  "a symbolic link cannot be read",
}

// ResolvePaths says where absolute paths lead at this moment. Others may change links right
// after. "..", too, is followed on the host: after a link it means the parent of the link's
// target. If one path cannot be resolved, none is, and the error is an *UnresolvedError.
func ResolvePaths(ctx context.Context, h Host, paths []string, fence *Fence) (map[string]RealPath, error) {
	real, err := resolvePaths(ctx, h, paths, fence)
	if err != nil {
		return nil, fmt.Errorf("resolve paths on %s: %w", h.Name(), err)
	}
	return real, nil
}

func resolvePaths(ctx context.Context, h Host, paths []string, fence *Fence) (map[string]RealPath, error) {
	paths = slices.Compact(slices.Sorted(slices.Values(paths)))
	size := 0
	var in strings.Builder
	for _, p := range paths {
		if !strings.HasPrefix(p, "/") || strings.ContainsRune(p, 0) {
			return nil, &UnresolvedError{fmt.Sprintf("%.100q is not an absolute path", p)}
		}
		size += len(p)
		in.WriteString(lineBreaks.Replace(p) + "\n")
	}
	if len(paths) > MaxResolve || size > MaxResolveBytes {
		return nil, &UnresolvedError{fmt.Sprintf("there are %d paths of %d bytes, at most %d of %d are resolved", len(paths), size, MaxResolve, MaxResolveBytes)}
	}
	ctx, cancel := context.WithTimeout(ctx, ResolveTime)
	defer cancel()
	res, err := h.Run(ctx, Command{Script: resolveScript, Stdin: []byte(in.String()), Fence: fence, FenceAtStart: fence != nil})
	if err != nil {
		return nil, err
	}
	return parseResolved(paths, res.Stdout)
}

var lineBreaks = strings.NewReplacer(`\`, `\\`, "\n", `\n`)

func parseResolved(paths []string, out []byte) (map[string]RealPath, error) {
	words := bytes.Split(out, []byte{0})
	if n := len(words); n < 2 || len(words[n-1]) > 0 {
		return nil, script.ErrGarbled
	}
	words = words[:len(words)-1]
	last := string(words[len(words)-1])
	if why, ok := strings.CutPrefix(last, "no "); ok {
		if text := unresolved[why]; text != "" {
			return nil, &UnresolvedError{text}
		}
	}
	if last != "." || len(words) != 2*len(paths)+1 {
		return nil, errors.Join(script.ErrGarbled, fmt.Errorf("it has %d words for %d paths, and ends with %.40q", len(words), len(paths), last))
	}
	all := make(map[string]RealPath, len(paths))
	for i, p := range paths {
		r := RealPath{Entry: string(words[2*i]), Target: string(words[2*i+1])}
		for _, is := range []string{r.Entry, r.Target} {
			switch {
			case !strings.HasPrefix(is, "/"):
				return nil, script.ErrGarbled
			case !utf8.ValidString(is):
				return nil, &UnresolvedError{fmt.Sprintf("%.100q leads to a name that is not text in UTF-8", p)}
			}
		}
		all[p] = r
	}
	return all, nil
}
