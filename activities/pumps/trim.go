package pumps

import (
	"context"
	"errors"
	"time"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/process"
)

const (
	// TrimStep is the least number of bytes worth a round trip.
	TrimStep = 4 << 20
	// Every errStep-th pump trims in any case: codex's error log is cut with the journal.
	errStep = 64
	// trimTime limits the round trip. A pump's end waits trimWait; the next pump can trim,
	// too.
	trimTime = 10 * time.Second
	trimWait = time.Second
)

// A trimming removes the part of a journal before the Rewind of the pump's input. The
// workflow has recorded that Rewind, so no attempt begins before it.
type trimming struct {
	done        chan struct{}
	cancel      context.CancelFunc
	trimmed     int64
	untrimmable bool
}

// trimDue reports whether a trimming is safe and worthwhile. While it is uncertain which
// messages codex has, the whole journal stays.
func trimDue(in RunPumpInput, a Attempt) bool {
	st := in.Pump.State
	if st.Untrimmable || st.Rewind-st.Trimmed < TrimStep && in.Claim.Pump%errStep != 0 {
		return false
	}
	again := a.N > 1 || in.Pump.Again > 0
	for _, send := range in.Pump.Sends {
		if send.Uncertain || again {
			return false
		}
	}
	tell := in.Pump.Tell
	return tell == nil || tell.Incarnation == 0 && !again
}

func trimAside(ctx context.Context, s *site.Site, in RunPumpInput, a Attempt) *trimming {
	t := &trimming{done: make(chan struct{}), cancel: func() {}}
	h, err := s.Host(in.Claim.Host)
	if err != nil || !trimDue(in, a) {
		close(t.done)
		return t
	}
	ctx, t.cancel = context.WithTimeout(ctx, trimTime)
	go func() {
		defer close(t.done)
		st := in.Pump.State
		freed, err := process.TrimJournal(ctx, h, folder.ServerDir(in.Layout, st.Cursor.Incarnation), st.Rewind, folder.FenceOf(in.Claim, in.Layout.Dir, a.N))
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

// add waits for the trimming and records it in st.
func (t *trimming) add(st *conversation.PumpState) {
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
