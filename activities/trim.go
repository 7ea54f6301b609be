package activities

import (
	"context"
	"errors"
	"time"

	"fairlead.dev/fairlead/hostexec"
)

const (
	// trimStep is how much must be there to give back before a round trip to
	// the host is worth it.
	trimStep = 4 << 20
	// errStep is how many pumps later it is done all the same: what codex
	// writes to its error log is cut with it.
	errStep = 64
	// trimTime bounds that round trip, and trimWait how long the end of a
	// pump waits for it: the next one can do it as well.
	trimTime = 10 * time.Second
	trimWait = time.Second
)

// A trimming gives back what the host keeps of a journal that nobody will read
// again, beside a pump. What lies below the Rewind of a pump's input is of that
// kind: the workflow has it for good, so no attempt begins below.
type trimming struct {
	done        chan struct{}
	cancel      context.CancelFunc
	trimmed     int64
	untrimmable bool
}

// trimDue says whether a trimming is worth it, and safe: while it is not certain
// what codex has, everything stays.
func trimDue(in RunPumpInput, a attempt) bool {
	st := in.Pump.State
	if st.Untrimmable || st.Rewind-st.Trimmed < trimStep && in.Claim.Pump%errStep != 0 {
		return false
	}
	again := a.n > 1 || in.Pump.Again > 0
	for _, send := range in.Pump.Sends {
		if send.Uncertain || again {
			return false
		}
	}
	tell := in.Pump.Tell
	return tell == nil || tell.Incarnation == 0 && !again
}

// trimAside begins a trimming if one is due. It is to be waited for by add.
func (s *Sessions) trimAside(ctx context.Context, in RunPumpInput, a attempt) *trimming {
	t := &trimming{done: make(chan struct{}), cancel: func() {}}
	h, err := s.host(in.Claim.Host)
	if err != nil || !trimDue(in, a) {
		close(t.done)
		return t
	}
	ctx, t.cancel = context.WithTimeout(ctx, trimTime)
	go func() {
		defer close(t.done)
		st := in.Pump.State
		freed, err := hostexec.TrimJournal(ctx, h, serverDir(in.Layout, st.Cursor.Incarnation), st.Rewind, in.Claim.fence(in.Layout.Dir, a.n))
		switch {
		case err == nil:
			t.trimmed = st.Rewind
			s.Logger.Debug("journal trimmed", "session", in.Claim.Session, "below", st.Rewind, "freed", freed)
		case errors.Is(err, hostexec.ErrUnsupported):
			t.untrimmable = true
			s.Logger.Info("the host cannot trim journals: a long session gets a new process now and then", "session", in.Claim.Session, "host", h.Name())
		default:
			s.Logger.Warn("journal not trimmed", "session", in.Claim.Session, "err", err)
		}
	}()
	return t
}

// add waits for the trimming and notes in the state what it did.
func (t *trimming) add(st *PumpState) {
	defer t.cancel()
	select {
	case <-t.done:
	case <-time.After(trimWait):
		t.cancel()
		<-t.done
	}
	st.Trimmed = max(st.Trimmed, t.trimmed)
	st.Untrimmable = st.Untrimmable || t.untrimmable
}
