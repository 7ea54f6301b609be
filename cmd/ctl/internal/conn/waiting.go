package conn

import (
	"context"
	"fmt"
	"strings"
	"time"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
)

// WaitNews remembers the last message to the user about a wait.
type WaitNews struct{ told string }

// News returns a line that says what a turn waits for. It returns "" if the turn waits for
// nothing, or if the last message said the same.
func (w *WaitNews) News(d protocol.SessionDetail, acc protocol.MessageAccepted) string {
	text := sessionWaits(d.View)
	if text == "" {
		text = turnWaits(d, acc)
	}
	return w.changed(text)
}

func (w *WaitNews) changed(text string) string {
	if text == "" || text == w.told {
		return ""
	}
	w.told = text
	return text
}

// sessionWaits says what keeps a session from going on, or "" if nothing does or the wait
// is short.
func sessionWaits(v protocol.SessionView) string {
	kept := v.State == protocol.Queued || v.State == protocol.Resuming || v.WaitingFor != nil
	if !kept || v.Waits == "" || v.Waits == "a host" || v.Waits == "the host" {
		return ""
	}
	return waitingText(v.Waits)
}

// turnWaits says what a turn waits for: another turn or a person's decision.
func turnWaits(d protocol.SessionDetail, acc protocol.MessageAccepted) string {
	now := d.View.Turn
	if now == nil {
		return ""
	}
	turn, ok := FindTurn(d, acc)
	asks := ""
	if open := OpenApprovals(d); len(open) > 0 {
		asks = fmt.Sprintf("waits for approval %s (`ctl approval show %s`)", open[0].ID, open[0].ID)
	}
	switch {
	case ok && turn.N == now.N && asks != "":
		return fmt.Sprintf("turn %d %s", turn.N, asks)
	case !ok || turn.Status != "queued" || now.N >= turn.N || !atWork(d, now.N):
		return ""
	case asks != "":
		return fmt.Sprintf("queued behind turn %d, which %s", now.N, asks)
	}
	return fmt.Sprintf("queued behind turn %d", now.N)
}

func atWork(d protocol.SessionDetail, n int) bool {
	for _, turn := range d.Turns {
		if turn.N == n {
			return !turn.Done()
		}
	}
	return false
}

func waitingText(waits string) string {
	text := "waiting for " + core.Clean(waits)
	if strings.Contains(waits, "slots in use") {
		text += " (an idle session keeps its slot: `ctl session list` shows them, `ctl session park ID` frees one)"
	}
	return text
}

// GoneOn returns an error if the session has ended: waiting is useless.
func GoneOn(doing string, v protocol.SessionView) error {
	switch v.State {
	case protocol.Closed:
		return core.Refused("%s: it closed meanwhile", doing)
	case protocol.Failed:
		return FailureExit(doing, v.Error)
	}
	return nil
}

// AwaitSession polls a session until done, or until --timeout or wait is over.
func AwaitSession(ctx context.Context, a *core.App, t *Conn, id, doing string, wait time.Duration, done func(protocol.SessionView) (bool, error)) (protocol.SessionView, error) {
	wait = a.Wait(wait)
	ctx, cancel := context.WithTimeoutCause(ctx, wait, core.TimedOut("%s: no end within %s", doing, wait).
		Hinted("it goes on; `ctl session show %s` says how far it is", id))
	defer cancel()
	look := time.NewTicker(250 * time.Millisecond)
	defer look.Stop()
	var told WaitNews
	for {
		var v protocol.SessionView
		err := t.Query(ctx, doing, protocol.SessionID(id), protocol.QueryState, &v)
		switch {
		case err == nil:
			if ok, err := done(v); ok || err != nil {
				return v, err
			}
			if news := told.changed(sessionWaits(v)); news != "" {
				a.Note("%s", news)
			}
		case ctx.Err() == nil && core.ExitCode(err) != core.ExitUnreachable: // wait while no worker answers
			return v, err
		}
		select {
		case <-ctx.Done():
			return v, context.Cause(ctx)
		case <-look.C:
		}
	}
}
