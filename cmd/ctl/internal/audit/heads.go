package audit

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/localsocket"
	"fairlead.dev/fairlead/internal/protocol"
)

// Somebody who can write to the store can cut off the end of a chain, or remove the chain. A
// head that comes from elsewhere shows that. Workflows and workers tell the heads of their own
// chains, and ctl keeps a file of the heads that it has seen.

// A told is the head of a chain as its writer tells it.
type told = map[string]protocol.AuditHead // by entity

type seen = audit.Seen

// Bounds of what is remembered, and of what is asked.
const (
	maxSeen      = 500_000
	maxSeenBytes = 256 << 20
	maxAsked     = 10_000 // workflows
	askedAtOnce  = 4      // workflows
	seenMode     = 0o600
)

// A memory is the file with what ctl has seen in one store. A nil memory remembers nothing.
type memory struct {
	path  string
	place string // the file with the store's id, or ""
	store string
	heads map[string]seen
}

var storeID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// remembered reads what ctl has seen in a store. file is that of --heads, or "" for the one in the
// state folder.
func remembered(a *core.App, doing, file string, r reading) (*memory, error) {
	m := &memory{path: file, store: r.store}
	if file == "" {
		if !storeID.MatchString(r.store) {
			a.Note("the worker does not say which store it has: the newest records are not compared with what ctl saw before")
			return nil, nil
		}
		dir, err := a.StateDir()
		if err != nil {
			return nil, err
		}
		dir = filepath.Join(dir, "audit-heads")
		m.path = filepath.Join(dir, r.store+".jsonl")
		m.place = filepath.Join(dir, audit.Digest(r.where)[:32]+".store")
		// Who can write to the store can change its id, too.
		switch was, err := os.ReadFile(m.place); {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return nil, core.Failed("%s: read which store ctl saw before: %v", doing, err).Because(err)
		case err == nil && strings.TrimSpace(string(was)) != r.store:
			return nil, core.Failed("%s: the workers of Temporal %s have the store %s, and ctl saw another one there before: %.60q", doing, r.where, r.store, strings.TrimSpace(string(was))).
				Hinted("if you replaced the store, remove %s: then ctl begins to remember anew", m.place)
		}
	}
	heads, err := readSeen(m.path)
	if err != nil {
		return nil, core.Failed("%s: read the newest records that ctl saw before: %s: %v", doing, m.path, err).
			Hinted("if nobody else wrote to the file, move it away: then ctl begins to remember anew").Because(err)
	}
	m.heads = heads
	return m, nil
}

func readSeen(file string) (map[string]seen, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]seen{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	heads := map[string]seen{}
	lines := bufio.NewScanner(io.LimitReader(f, maxSeenBytes))
	for n := 1; lines.Scan(); n++ {
		var s seen
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil || s.Entity == "" || s.Seq < 1 {
			return nil, fmt.Errorf("line %d is no head of a chain", n)
		}
		if s.Seq > heads[s.Entity].Seq {
			heads[s.Entity] = s
		}
		if len(heads) > maxSeen {
			return nil, fmt.Errorf("it has more than %d heads", maxSeen)
		}
	}
	return heads, lines.Err()
}

// saw adds or updates the heads of chains that hold. It keeps heads that another ctl has added
// meanwhile.
func (m *memory) saw(heads []seen) error {
	if m == nil || len(heads) == 0 {
		return nil
	}
	dir := filepath.Dir(m.path)
	if err := localsocket.MakeFolder(dir); err != nil {
		return err
	}
	lock, err := os.OpenFile(m.path+".lock", os.O_RDWR|os.O_CREATE, seenMode)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	if m.place != "" {
		if err := os.WriteFile(m.place, []byte(m.store+"\n"), seenMode); err != nil {
			return err
		}
	}
	all, err := readSeen(m.path)
	if err != nil {
		return err
	}
	changed := false
	for _, s := range heads {
		if was, is := all[s.Entity]; s.Seq > was.Seq && (is || len(all) < maxSeen) {
			all[s.Entity], changed = s, true
		}
	}
	if !changed {
		return nil
	}
	var text bytes.Buffer
	for _, s := range slices.SortedFunc(maps.Values(all), func(a, b seen) int { return cmp.Compare(a.Entity, b.Entity) }) {
		line, err := json.Marshal(s)
		if err != nil {
			return err
		}
		text.Write(append(line, '\n'))
	}
	f, err := os.CreateTemp(dir, filepath.Base(m.path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // nothing, once it has its name
	_, err = f.Write(text.Bytes())
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), m.path)
}

// of returns the heads of a filter's chains.
func (m *memory) of(f filter) map[string]seen {
	out := map[string]seen{}
	if m == nil {
		return out
	}
	for entity, s := range m.heads {
		if f.Workflow == "" || strings.HasPrefix(entity, f.Workflow+"/") {
			out[entity] = s
		}
	}
	return out
}

// ofWorkers returns the heads of the chains of workers that run.
func ofWorkers(ctx context.Context, a *core.App, t *conn.Conn, to told) {
	_, statuses, err := conn.Workers(ctx, a, t)
	if err != nil {
		a.Note("workers do not tell their newest records: %v", err)
		return
	}
	for _, st := range statuses {
		if h := st.Audit; h != nil && h.Seq > 0 {
			to[h.Entity] = *h
		}
	}
}

// ofWorkflows asks each workflow that Temporal still knows. silent are the ids of those that did not
// answer; the others are asked nevertheless.
func ofWorkflows(ctx context.Context, a *core.App, t *conn.Conn, doing string, to told) (waiting, silent []string, err error) {
	all, err := t.List(ctx, doing, "", maxAsked+1)
	if err != nil {
		return nil, nil, err
	}
	if len(all) > maxAsked {
		return nil, nil, core.Failed("%s: Temporal knows more than %d workflows, and no more are asked", doing, maxAsked).Hinted("name a session with --session, or a workflow with --workflow")
	}
	var ids []string // each once: a workflow may have earlier runs
	for _, info := range all {
		ids = append(ids, info.GetExecution().GetWorkflowId())
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)

	var mu sync.Mutex
	without, live := 0, false // without records
	ask := func(ids []string, query func(id string, v *protocol.AuditView) (bool, error)) (left []string) {
		var g errgroup.Group
		g.SetLimit(askedAtOnce)
		for _, id := range ids {
			g.Go(func() error {
				if ctx.Err() != nil {
					return nil
				}
				var v protocol.AuditView
				answered, err := query(id, &v)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err != nil && core.ExitCode(err) == core.ExitUnreachable:
					left = append(left, id)
					return nil
				case err != nil:
					without++ // it has no records, or has ended since
				case v.Head != nil:
					to[v.Head.Entity] = *v.Head
					waiting = append(waiting, v.Waiting...)
				}
				live = live || answered
				return nil
			})
		}
		g.Wait()
		return left
	}
	silent = ask(ids, func(id string, v *protocol.AuditView) (bool, error) {
		return t.AskEither(ctx, doing, id, protocol.QueryAudit, v)
	})
	if live { // AskEither does not wait long for a worker that is busy
		silent = ask(silent, func(id string, v *protocol.AuditView) (bool, error) {
			return true, t.Query(ctx, doing, id, protocol.QueryAudit, v)
		})
	}
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	if without > 0 {
		a.Note("%d of %d workflows tell no newest record: those of maintenance have none", without, len(ids))
	}
	slices.Sort(silent)
	return waiting, silent, nil
}
