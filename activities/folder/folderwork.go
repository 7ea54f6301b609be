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

// EndAll stops every incarnation and reaps what they left behind.
func EndAll(ctx context.Context, h hostexec.Host, l protocol.Layout, c protocol.Claim, incarnation int, attempt int32) ([]process.Survivor, error) {
	fence := FenceOf(c, l.Dir, attempt)
	for i := incarnation; i >= 1; i-- {
		st, err := process.Stop(ctx, h, ServerDir(l, i), fence, stopGrace)
		if err != nil {
			return nil, fmt.Errorf("stop %s on %s: %w", ServerName(i), h.Name(), err)
		}
		if st.State != process.Absent {
			break // each was started only after the one before it was gone
		}
	}
	found, err := process.Reap(ctx, h, l.Dir, Mark(c.Session, l), fence)
	if err != nil {
		return found, fmt.Errorf("end what codex left behind on %s: %w", h.Name(), err)
	}
	return found, nil
}

// EndUnrecorded ends the processes that a session left on a host where its folder and all
// records in it are gone. It finds them by their mark.
func EndUnrecorded(ctx context.Context, h hostexec.Host, l protocol.Layout, c protocol.Claim, attempt int32) ([]process.Survivor, error) {
	fence := FenceOf(c, l.Dir, attempt)
	found, err := process.Reap(ctx, h, l.Dir, Mark(c.Session, l), fence)
	if err != nil {
		return found, fmt.Errorf("end what codex left behind on %s: %w", h.Name(), err)
	}
	// Reap took the lock, which made the folder anew.
	if err := hostexec.RemoveTree(ctx, h, l.Dir, path.Join(l.Root, "sessions"), &fence); err != nil {
		return found, fmt.Errorf("tidy up on %s: %w", h.Name(), err)
	}
	return found, nil
}

// MountPoints are folders that codex makes in the work folder while a command runs in
// its sandbox, and may leave behind. Empty ones are left out of snapshots, because some
// exist for a moment after a turn.
var MountPoints = []string{".git", ".codex", ".agents", ".aws"}

// WorthKeeping reports whether there is anything but folders. Whatever find cannot read
// counts. gone is a folder in must that does not exist; "" if all exist.
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

// IncarnationOf returns the incarnation whose process has that name.
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

// SessionRoom is the least free space, in bytes, for a session: for codex's own files
// and its journal.
const SessionRoom = 64 << 20

// FormerGone fails if the newest of the former incarnations that were started still
// runs.
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

// LoginRotates reports whether codex changes a seed's auth.json while it works.
func LoginRotates(r *protocol.SeedRef) bool { return r != nil && r.Kind == string(seeds.KindChatGPT) }

// ProcessesIn lists the names of the journaled processes that have a folder in a
// session's folder.
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

// EndEvery ends all processes of a session if the newest incarnation is not known.
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

// Mark returns the value of FAIRLEAD_SESSION in the environment of a session's
// processes, codex's own commands included. It also depends on the session's folder:
// another stack may have a session of the same id on the same machine, and must not end
// the processes of this session.
func Mark(session string, l protocol.Layout) string {
	sum := sha256.Sum256([]byte(l.Dir))
	return session + "@" + hex.EncodeToString(sum[:4])
}

// stopGrace is how long codex may take to end by itself. It usually takes 0.1 s.
const stopGrace = 5 * time.Second
