package folder

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/process"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

// ModelForward is the name of the forward of a model gateway.
const ModelForward = "model"

// EndAll stops every incarnation and reaps what they left.
func EndAll(ctx context.Context, h hostexec.Host, l protocol.Layout, c protocol.Claim, incarnation int, attempt int32) ([]process.Survivor, error) {
	fence := FenceOf(c, l.Dir, attempt)
	for i := incarnation; i >= 1; i-- {
		st, err := process.Stop(ctx, h, ServerDir(l, i), fence, stopGrace)
		if err != nil {
			return nil, fmt.Errorf("stop %s on %s: %w", ServerName(i), h.Name(), err)
		}
		if st.State != process.Absent {
			break // each began after the one before was gone
		}
	}
	// Codex is gone, so nobody else who takes the port can answer it.
	if l.ModelPort != 0 {
		if err := hostexec.EndForward(ctx, h, fence, ModelForward, ""); err != nil {
			return nil, fmt.Errorf("close the port of the model gateway on %s: %w", h.Name(), err)
		}
	}
	found, err := process.Reap(ctx, h, l.Dir, Mark(c.Session, l), fence)
	if err != nil {
		return found, fmt.Errorf("end what codex left behind on %s: %w", h.Name(), err)
	}
	return found, nil
}

// EndUnrecorded ends, by their mark, processes whose folder and records are gone.
func EndUnrecorded(ctx context.Context, h hostexec.Host, l protocol.Layout, c protocol.Claim, attempt int32) ([]process.Survivor, error) {
	fence := FenceOf(c, l.Dir, attempt)
	found, err := process.Reap(ctx, h, l.Dir, Mark(c.Session, l), fence)
	if err != nil {
		return found, fmt.Errorf("end what codex left behind on %s: %w", h.Name(), err)
	}
	// Reap's lock made the folder anew.
	if err := Remove(ctx, h, l, fence); err != nil {
		return found, fmt.Errorf("tidy up on %s: %w", h.Name(), err)
	}
	return found, nil
}

// MountPoints are folders that codex makes in the work folder for a sandboxed command, and
// may leave. Snapshots leave out empty ones: some exist for a moment after a turn.
var MountPoints = []string{".git", ".codex", ".agents", ".aws"}

// WorthKeeping reports whether there is anything but folders; what find cannot read counts.
// gone is a missing folder of must, or "".
func WorthKeeping(ctx context.Context, h hostexec.Host, codexHome, work string, must ...string) (any bool, gone string, err error) {
	res, err := h.Run(ctx, hostexec.Command{
		Script: `home=$1 work=$2
shift 2
for d do
	[ -d "$d" ] || { printf 'gone %s' "$d"; exit 0; }
done
for d in "$home/sessions" "$home/archived_sessions" ${work:+"$work"}; do
	[ ! -d "$d" ] || [ -z "$(find "$d" ! -type d -print 2>&1 | head -n 1)" ] || { echo y; exit 0; }
done
echo n`, Args: append([]string{codexHome, work}, must...),
	})
	if err != nil {
		return false, "", fmt.Errorf("look for what to keep on %s: %w", h.Name(), err)
	}
	gone, _ = strings.CutPrefix(string(res.Stdout), "gone ")
	if gone == string(res.Stdout) {
		gone = ""
	}
	return string(res.Stdout) != "n\n", gone, nil
}

// IncarnationOf returns the incarnation of a process.
func IncarnationOf(name string) (int, bool) {
	n := 1
	if rest, ok := strings.CutPrefix(name, ServerName(1)+"."); ok {
		var err error
		if n, err = strconv.Atoi(rest); err != nil {
			return 0, false
		}
	}
	return n, name == ServerName(n)
}

// SessionRoom is the least free space for a session, in bytes.
const SessionRoom = 64 << 20

// FormerGone fails if the newest former incarnation that was started still runs.
func FormerGone(ctx context.Context, h hostexec.Host, l protocol.Layout, incarnation int) error {
	for i := incarnation - 1; i >= 1; i-- {
		st, err := process.Inspect(ctx, h, ServerDir(l, i))
		if err != nil {
			return fmt.Errorf("look at the former %s on %s: %w", ServerName(i), h.Name(), err)
		}
		switch st.State {
		case process.Running:
			return &kit.TypedError{Kind: protocol.ErrTypeInternal, Hint: "stop it first; two processes must not write one thread",
				Err: fmt.Errorf("%s still runs on %s as process %d", ServerName(i), h.Name(), st.PID)}
		case process.Absent:
			continue
		}
		return nil
	}
	return nil
}

// LoginRotates reports whether codex changes the seed's auth.json.
func LoginRotates(r *protocol.SeedRef) bool { return r != nil && r.Kind == string(seeds.KindChatGPT) }

// ProcessesIn lists a session's journaled processes.
func ProcessesIn(ctx context.Context, h hostexec.Host, l protocol.Layout) ([]string, error) {
	res, err := h.Run(ctx, hostexec.Command{
		Script: `[ -d "$1" ] || exit 0
cd "$1" && for d in app-server app-server.*; do if [ -d "$d" ]; then printf '%s\n' "$d"; fi; done`,
		Args: []string{path.Join(l.Dir, "proc")},
	})
	if err != nil {
		return nil, fmt.Errorf("list processes on %s: %w", h.Name(), err)
	}
	return strings.Fields(string(res.Stdout)), nil
}

// EndEvery is EndAll for an unknown incarnation.
func EndEvery(ctx context.Context, h hostexec.Host, l protocol.Layout, c protocol.Claim, attempt int32) (found []process.Survivor, err error) {
	newest := 0
	names, err := ProcessesIn(ctx, h, l)
	for _, name := range names {
		if n, ok := IncarnationOf(name); ok {
			newest = max(newest, n)
		}
	}
	if err == nil {
		found, err = EndAll(ctx, h, l, c, newest, attempt)
	}
	return found, err
}

// Mark returns FAIRLEAD_SESSION for all processes of a session. It depends on the folder:
// another stack on the machine may have a session of the same id.
func Mark(session string, l protocol.Layout) string {
	sum := sha256.Sum256([]byte(l.Dir))
	return session + "@" + hex.EncodeToString(sum[:4])
}

// stopGrace is codex's time to end; 0.1 s is usual.
const stopGrace = 5 * time.Second
