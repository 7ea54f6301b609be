package pumps

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/logins"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/process"
	"fairlead.dev/fairlead/internal/protocol"
)

// WatchEvery is the default pause between looks, which varies by up to a fifth. Even if a
// worker is lost at the worst moment, a session learns of an event within two minutes.
const WatchEvery = 25 * time.Second

const (
	// maxWatchPause is the longest pause while a host cannot be reached.
	maxWatchPause = time.Minute
	// StirAgain is how long a session has to handle a signal before it is sent again; it
	// doubles each time.
	StirAgain = 3 * time.Minute
	maxPieces = 4
	// maxWatchLine is the longest line that is read whole. Of others only id and method are
	// read.
	maxWatchLine = 64 << 10
)

// WatchHostInput is the input of WatchHost.
type WatchHostInput struct {
	Host protocol.HostSpec `json:"host"`
	// Prefix and a session's name make the workflow id for Signal with a Stirred.
	Prefix string `json:"prefix"`
	Signal string `json:"signal"`
	// Pool, if set, gets Back with a HostBack when the host is back.
	Pool string `json:"pool,omitempty"`
	Back string `json:"back,omitempty"`
	// Away, if set, goes to Pool with a HostAway when the host cannot be reached, or sends
	// too much.
	Away string `json:"away,omitempty"`
	// Owed says that Pool waits, and gets Back in any case.
	Owed bool `json:"owed,omitempty"`
}

// awayAfter is how many failed looks in a row make the host away.
const awayAfter = 2

// Stirred tells a waiting session that something happened to its process.
type Stirred struct {
	Host        string `json:"host"`
	Incarnation int    `json:"incarnation"`
	// Offset is the end of the line that matters.
	Offset int64 `json:"offset,omitempty"`
	// Gone is why the process need not be waited for: exited, lost, rebooted, absent, or
	// journal if that was lost.
	Gone string `json:"gone,omitempty"`
}

// WatchHost watches all processes on a host for which a pump left a watch, in one round
// trip for each look. Another attempt begins anew, and at worst sends a signal twice.
func (s *Activities) WatchHost(ctx context.Context, in WatchHostInput) error {
	w := &Watcher{
		// The host may have been away before this attempt.
		Owed: in.Owed || activity.GetInfo(ctx).Attempt > 1,
		Site: s.Site, In: in, Stirs: map[string]*Stir{},
		Tell: func(ctx context.Context, session string, what Stirred) error {
			return s.Site.Temporal.SignalWorkflow(ctx, in.Prefix+session, "", in.Signal, what)
		},
		Away: func(ctx context.Context, p protocol.Problem) error {
			if in.Pool == "" || in.Away == "" {
				return nil
			}
			return s.Site.Temporal.SignalWorkflow(ctx, in.Pool, "", in.Away, protocol.HostAway{Host: in.Host.Name, Problem: p})
		},
		Back: func(ctx context.Context) error {
			if in.Pool == "" {
				return nil
			}
			return s.Site.Temporal.SignalWorkflow(ctx, in.Pool, "", in.Back, protocol.HostBack{Host: in.Host.Name})
		},
	}
	logins, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.WatchLogins(logins)
	}()
	err := w.Run(ctx, activity.GetWorkerStopChannel(ctx))
	stop()
	<-done
	f := kit.Failing{Delay: kit.NextTry(1, 0)}
	return f.Failure(ctx, "watch host "+in.Host.Name, err)
}

// Watcher is one run of WatchHost.
type Watcher struct {
	Site  *site.Site
	In    WatchHostInput
	Tell  func(ctx context.Context, session string, what Stirred) error
	Away  func(ctx context.Context, p protocol.Problem) error
	Back  func(ctx context.Context) error
	Owed  bool
	root  string // once known
	Stirs map[string]*Stir

	keepers map[string]*logins.Keeper // used by WatchLogins only
}

// A Stir is the state of a watched process.
type Stir struct {
	from int64
	read int64 // of the journal
	what Stirred
	told int       // how often what was sent
	next time.Time // when to send it again
}

// Run looks until ctx ends or stop is closed. It retries failed looks.
func (w *Watcher) Run(ctx context.Context, stop <-chan struct{}) error {
	every := w.Site.WatchEvery
	if every <= 0 {
		every = WatchEvery
	}
	failures := 0
	for {
		pause := every
		if failures > 0 {
			pause = max(every, min(every<<min(failures-1, 5), maxWatchPause))
		}
		timer := time.NewTimer(pause*4/5 + rand.N(pause*2/5+1))
		select {
		case <-timer.C:
		case <-stop:
			timer.Stop()
			return kit.ErrHandOver
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		switch err := w.Look(ctx); {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && (failures > 0 || w.Owed):
			if failures > 0 {
				w.Site.Logger.Info("host is watched again", "host", w.In.Host.Name)
			}
			failures, w.Owed = 0, false
			if err := w.Back(ctx); err != nil {
				// The pool also tries by itself.
				w.Site.Logger.Warn("pool not told that the host is back", "host", w.In.Host.Name, "error", err)
			}
		case err != nil:
			// Events are seen once the host can be reached.
			if failures++; failures == 1 {
				w.Site.Logger.Warn("host cannot be watched", "host", w.In.Host.Name, "error", err)
			}
			if failures == awayAfter || failures == 1 && errors.Is(err, hostexec.ErrFlood) {
				w.tellAway(ctx, err)
			}
		}
	}
}

// tellAway signals the pool if the host is at fault.
func (w *Watcher) tellAway(ctx context.Context, why error) {
	kind, hint, _ := kit.Failing{}.Classify(why)
	if !hosts.HostFault(kind) {
		return
	}
	if err := w.Away(ctx, protocol.Problem{Kind: kind, Message: why.Error(), Hint: hint}); err != nil {
		// The next session there reports it, too.
		w.Site.Logger.Warn("pool not told that the host is away", "host", w.In.Host.Name, "error", err)
	}
}

// Look checks all watched processes.
func (w *Watcher) Look(ctx context.Context) error {
	h, err := w.Site.Host(w.In.Host)
	if err != nil {
		return err
	}
	if w.root == "" {
		if w.root, err = hostexec.Root(ctx, h, w.In.Host); err != nil {
			return err
		}
	}
	dir := path.Join(w.root, "sessions")
	found, err := process.LookWatched(ctx, h, dir)
	if err != nil {
		return err
	}
	// A watched process that is not found has ended, or has a pump.
	known := w.Stirs
	w.Stirs = make(map[string]*Stir, len(found))
	var errs []error
	for _, f := range found {
		incarnation, ok := folder.IncarnationOf(f.Process)
		if !ok || !kit.NameRule.MatchString(f.Session) {
			continue
		}
		key := f.Session + "/" + f.Process
		st := known[key]
		if st == nil || st.from != f.Offset {
			st = &Stir{from: f.Offset, read: f.Offset}
		}
		w.Stirs[key] = st
		what := Stirred{Host: w.In.Host.Name, Incarnation: incarnation, Gone: goneBy(f), Offset: st.what.Offset}
		if what.Gone == "" && what.Offset == 0 {
			what.Offset, err = w.read(ctx, h, path.Join(dir, f.Session, "proc", f.Process), st, f.Size)
			if errors.Is(err, process.ErrJournalLost) {
				what.Gone, err = goneJournal, nil
			}
			if err != nil {
				errs = append(errs, err)
				continue
			}
		}
		if err := w.stir(ctx, f.Session, st, what); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// goneJournal says that codex runs, but its journal lacks bytes that were read.
const goneJournal = "journal"

// goneBy returns a Stirred.Gone.
func goneBy(f process.Watched) string {
	switch {
	case f.State != process.Running:
		return string(f.State)
	case f.Over():
		return goneJournal
	}
	return ""
}

// read scans new lines. It returns the end of the first that the session must know of, or
// 0.
func (w *Watcher) read(ctx context.Context, h hostexec.Host, dir string, st *Stir, size int64) (int64, error) {
	for range maxPieces {
		if st.read >= size {
			break
		}
		piece, err := process.ReadJournal(ctx, h, dir, st.read)
		if err != nil {
			return 0, err
		}
		lines := wire.NewScanner(bytes.NewReader(piece), st.read, maxWatchLine)
		at := st.read
		for {
			l, err := lines.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				return 0, err
			}
			if at = l.End; l.Stirs() {
				return at, nil
			}
		}
		if at == st.read {
			if len(piece) == process.MaxJournalPiece {
				// only a pump can read it
				return at + int64(len(piece)), nil
			}
			break // its end is not written yet
		}
		st.read = at
	}
	return 0, nil
}

// stir signals a session what happened, unless it just did.
func (w *Watcher) stir(ctx context.Context, session string, st *Stir, what Stirred) error {
	if what.Gone == "" && what.Offset == 0 {
		return nil
	}
	now := w.Site.Now()
	if what == st.what && now.Before(st.next) {
		return nil
	}
	if what != st.what {
		st.what, st.told = what, 0
	}
	err := w.Tell(ctx, session, what)
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		// The session has ended, or is not ours.
		err = nil
		st.told = maxTold
	}
	if err != nil {
		st.next = time.Time{}
		return fmt.Errorf("tell session %s of its process: %w", session, err)
	}
	st.told = min(st.told+1, maxTold)
	st.next = now.Add(StirAgain << (st.told - 1))
	return nil
}

// maxTold is when the pause, then about three hours, stops doubling.
const maxTold = 7

// leaveWatch has WatchHost watch the process while no pump is attached.
func leaveWatch(ctx context.Context, s *site.Site, in RunPumpInput, n int32, at protocol.Cursor, keep *logins.Keeper) error {
	h, err := s.Host(in.Claim.Host)
	if err != nil {
		return err
	}
	ctx, cancel := kit.Afterwards(ctx)
	defer cancel()
	dir, fence := folder.ServerDir(in.Layout, at.Incarnation), folder.FenceOf(in.Claim, in.Layout.Dir, n)
	err = process.LeaveWatch(ctx, h, dir, at.Offset, fence)
	if err == nil && keep != nil {
		err = keep.WatchLogin(ctx, dir, fence)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, hostexec.ErrNoSpace):
		// An error would hide the session's requests, which is worse than noticing the
		// process's end late.
		s.Logger.Warn("process is not looked after while its session waits", "session", in.Claim.Session, "host", h.Name(), "error", err)
		return nil
	}
	// The next attempt finds the cause.
	return fmt.Errorf("%w: %w", conversation.ErrWireLost, err)
}
