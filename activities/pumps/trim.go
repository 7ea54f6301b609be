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
	// TrimStep is the least number of bytes to trim that is worth a round trip to the
	// host.
	TrimStep = 4 << 20
	// Every errStep-th pump trims in any case, because codex's error log is cut
	// together with the journal.
	errStep = 64
	// trimTime is the time limit for that round trip. trimWait is how long the end of a
	// pump waits for it; the next pump can trim as well.
	trimTime = 10 * time.Second
	trimWait = time.Second
)

// A trimming runs in parallel with a pump. It removes the part of the journal that
// nobody will read again: the bytes before the Rewind of the pump's input. The workflow
// has recorded this Rewind, so no attempt begins before it.
type trimming struct {
	done        chan struct{}
	cancel      context.CancelFunc
	trimmed     int64
	untrimmable bool
}

// trimDue reports whether a trimming is worth a round trip and is safe. As long as it
// is not certain which messages codex has received, the whole journal stays.
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

// trimAside starts a trimming if it is due. add waits for the trimming.
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

// add waits for the trimming and records its result in st.
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
