package activities

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

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/process"
	"fairlead.dev/fairlead/internal/protocol"
)

// WatchEvery is the pause between looks at the processes of waiting sessions, if
// Deps.WatchEvery is 0. Each pause varies by up to a fifth. Even if a worker is lost at
// the worst moment, a session learns of an event within two minutes.
const WatchEvery = 25 * time.Second

const (
	// maxWatchPause is the longest pause between looks at a host that cannot
	// be reached.
	maxWatchPause = time.Minute
	// stirAgain is how long a session has to handle a signal. Then the signal is sent
	// again, and each time the pause doubles.
	stirAgain = 3 * time.Minute
	// maxPieces is how many pieces of one journal are read in one look.
	maxPieces = 4
	// maxWatchLine is the longest line that is read whole. Of longer lines, only the id
	// and the method are read.
	maxWatchLine = 64 << 10
)

// WatchHostInput is the input of WatchHost.
type WatchHostInput struct {
	Host protocol.HostSpec `json:"host"`
	// Prefix and the session's name make the id of the session's workflow, which is
	// sent Signal with a Stirred.
	Prefix string `json:"prefix"`
	Signal string `json:"signal"`
	// Pool, if set, is the workflow that is sent the signal Back with a HostBack
	// when the host can be reached again.
	Pool string `json:"pool,omitempty"`
	Back string `json:"back,omitempty"`
	// Away, if set, is the signal that the pool is sent, with a HostAway, when the
	// host cannot be reached.
	Away string `json:"away,omitempty"`
	// Owed says that the pool waits for the host. Then the pool is sent Back even if
	// the host was never away.
	Owed bool `json:"owed,omitempty"`
}

// awayAfter is how many looks in a row must fail before the pool is sent Away.
const awayAfter = 2

// Stirred tells a waiting session, which is not attached to its process, that
// something happened to the process.
type Stirred struct {
	Host        string `json:"host"`
	Incarnation int    `json:"incarnation"`
	// Offset is the end of the journal's line that matters.
	Offset int64 `json:"offset,omitempty"`
	// Gone is the reason why the session need not wait for the process any more:
	// exited, lost, rebooted, absent, or journal if the journal was lost.
	Gone string `json:"gone,omitempty"`
}

// WatchHost watches all processes on a host for which a pump left a watch, until it is
// cancelled. One look is one round trip for the whole host; a session to which nothing
// happens costs nothing more. WatchHost remembers only how far it has read and what it
// has signalled. Another attempt begins anew, and at worst sends a signal twice.
func (s *PumpActs) WatchHost(ctx context.Context, in WatchHostInput) error {
	w := &watcher{
		// A new attempt does not know whether the host was away meanwhile.
		owed: in.Owed || activity.GetInfo(ctx).Attempt > 1,
		site: s.site, in: in, stirs: map[string]*stir{},
		tell: func(ctx context.Context, session string, what Stirred) error {
			return s.site.Temporal.SignalWorkflow(ctx, in.Prefix+session, "", in.Signal, what)
		},
		away: func(ctx context.Context, p protocol.Problem) error {
			if in.Pool == "" || in.Away == "" {
				return nil
			}
			return s.site.Temporal.SignalWorkflow(ctx, in.Pool, "", in.Away, protocol.HostAway{Host: in.Host.Name, Problem: p})
		},
		back: func(ctx context.Context) error {
			if in.Pool == "" {
				return nil
			}
			return s.site.Temporal.SignalWorkflow(ctx, in.Pool, "", in.Back, protocol.HostBack{Host: in.Host.Name})
		},
	}
	logins, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.watchLogins(logins)
	}()
	err := w.run(ctx, activity.GetWorkerStopChannel(ctx))
	stop()
	<-done
	f := failing{delay: nextTry(1, 0)}
	return f.failure(ctx, "watch host "+in.Host.Name, err)
}

type watcher struct {
	site  *site
	in    WatchHostInput
	tell  func(ctx context.Context, session string, what Stirred) error
	away  func(ctx context.Context, p protocol.Problem) error
	back  func(ctx context.Context) error // signals the pool that the host can be reached
	owed  bool                            // the pool is signalled in any case
	root  string                          // the host's root folder, after it is known
	stirs map[string]*stir

	keepers map[string]*keeper // keepers of logins that have changed; used by watchLogins only
}

// A stir is the state of one watched process.
type stir struct {
	from int64 // the offset at which the watch was left
	read int64 // how far the journal was read
	what Stirred
	told int       // how often the signal what was sent
	next time.Time // when what is sent again
}

func (w *watcher) run(ctx context.Context, stop <-chan struct{}) error {
	every := w.site.WatchEvery
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
			return errHandOver
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		switch err := w.look(ctx); {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && (failures > 0 || w.owed):
			if failures > 0 {
				w.site.Logger.Info("host is watched again", "host", w.in.Host.Name)
			}
			failures, w.owed = 0, false
			if err := w.back(ctx); err != nil {
				// The pool tries by itself from time to time.
				w.site.Logger.Warn("pool not told that the host is back", "host", w.in.Host.Name, "error", err)
			}
		case err != nil:
			// No session fails because of this: events are seen as soon as the host can
			// be reached.
			if failures++; failures == 1 {
				w.site.Logger.Warn("host cannot be watched", "host", w.in.Host.Name, "error", err)
			}
			if failures == awayAfter {
				w.tellAway(ctx, err)
			}
		}
	}
}

// tellAway signals the pool that its host cannot be used, if the cause is the host.
func (w *watcher) tellAway(ctx context.Context, why error) {
	kind, hint, _ := failing{}.classify(why)
	if !HostFault(kind) {
		return
	}
	if err := w.away(ctx, protocol.Problem{Kind: kind, Message: why.Error(), Hint: hint}); err != nil {
		// A session that gets a slot there will report it to the pool, too.
		w.site.Logger.Warn("pool not told that the host is away", "host", w.in.Host.Name, "error", err)
	}
}

// look checks all watched processes of the host once.
func (w *watcher) look(ctx context.Context) error {
	h, err := w.site.host(w.in.Host)
	if err != nil {
		return err
	}
	if w.root == "" {
		if w.root, err = hostexec.Root(ctx, h, w.in.Host); err != nil {
			return err
		}
	}
	dir := path.Join(w.root, "sessions")
	found, err := process.LookWatched(ctx, h, dir)
	if err != nil {
		return err
	}
	// If a watched process is not found any more, a pump has attached to it, or it has
	// ended.
	known := w.stirs
	w.stirs = make(map[string]*stir, len(found))
	var errs []error
	for _, f := range found {
		incarnation, ok := incarnationOf(f.Process)
		if !ok || !nameRule.MatchString(f.Session) {
			continue
		}
		key := f.Session + "/" + f.Process
		st := known[key]
		if st == nil || st.from != f.Offset {
			st = &stir{from: f.Offset, read: f.Offset}
		}
		w.stirs[key] = st
		what := Stirred{Host: w.in.Host.Name, Incarnation: incarnation, Gone: goneBy(f), Offset: st.what.Offset}
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

// goneJournal is the reason if codex runs, but its journal lacks bytes that were
// already read.
const goneJournal = "journal"

// goneBy returns the reason why the session need not wait for the process any more; ""
// if it must wait.
func goneBy(f process.Watched) string {
	switch {
	case f.State != process.Running:
		return string(f.State)
	case f.Over():
		return goneJournal
	}
	return ""
}

// read scans the new part of a journal. It returns the end of the first line of which
// the session must be told, or 0 if there is no such line.
func (w *watcher) read(ctx context.Context, h hostexec.Host, dir string, st *stir, size int64) (int64, error) {
	for range maxPieces {
		if st.read >= size {
			break
		}
		piece, err := process.ReadJournal(ctx, h, dir, st.read)
		if err != nil {
			return 0, err
		}
		lines := conversation.NewScanner(bytes.NewReader(piece), st.read, maxWatchLine)
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
				// The line is so long that only a pump can read it.
				return at + int64(len(piece)), nil
			}
			break // the line has no end yet
		}
		st.read = at
	}
	return 0, nil
}

// stir signals a session what happened, unless the last such signal was sent a short
// time ago.
func (w *watcher) stir(ctx context.Context, session string, st *stir, what Stirred) error {
	if what.Gone == "" && what.Offset == 0 {
		return nil
	}
	now := w.site.Now()
	if what == st.what && now.Before(st.next) {
		return nil
	}
	if what != st.what {
		st.what, st.told = what, 0
	}
	err := w.tell(ctx, session, what)
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
	st.next = now.Add(stirAgain << (st.told - 1))
	return nil
}

// maxTold is the number of repetitions after which the pause stops doubling. It is then
// about three hours.
const maxTold = 7

// leaveWatch has WatchHost watch the process while the session waits for a person
// and no pump is attached.
func leaveWatch(ctx context.Context, s *site, in RunPumpInput, n int32, at protocol.Cursor, keep *keeper) error {
	h, err := s.host(in.Claim.Host)
	if err != nil {
		return err
	}
	ctx, cancel := afterwards(ctx)
	defer cancel()
	dir, fence := serverDir(in.Layout, at.Incarnation), fenceOf(in.Claim, in.Layout.Dir, n)
	err = process.LeaveWatch(ctx, h, dir, at.Offset, fence)
	if err == nil && keep != nil {
		err = keep.watchLogin(ctx, dir, fence)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, hostexec.ErrNoSpace):
		// An error would hide the session's requests. This would be worse than seeing
		// the end of the process late.
		s.Logger.Warn("process is not looked after while its session waits", "session", in.Claim.Session, "host", h.Name(), "error", err)
		return nil
	}
	// The next attempt finds the cause when it attaches.
	return fmt.Errorf("%w: %w", conversation.ErrWireLost, err)
}
