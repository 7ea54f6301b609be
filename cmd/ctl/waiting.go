package main

import (
	"fmt"
	"strings"

	"fairlead.dev/fairlead/workflows"
)

// waitNews remembers what the user was last told about what a session waits for.
type waitNews struct{ told string }

// news returns what a turn waits for now, in a line. It returns "" if the turn waits for
// nothing, or if that was told last.
func (w *waitNews) news(d workflows.SessionDetail, acc workflows.MessageAccepted) string {
	text := sessionWaits(d.View)
	if text == "" {
		text = turnWaits(d, acc)
	}
	return w.changed(text)
}

// changed returns text, or "" if it was told last.
func (w *waitNews) changed(text string) string {
	if text == "" || text == w.told {
		return ""
	}
	w.told = text
	return text
}

// sessionWaits returns what keeps a session from going on, in a line. It returns "" if
// nothing does, or only for a moment.
func sessionWaits(v workflows.SessionView) string {
	kept := v.State == workflows.Queued || v.State == workflows.Resuming || v.WaitingFor != nil
	if !kept || v.Waits == "" || v.Waits == "a host" || v.Waits == "the host" {
		return ""
	}
	return waitingText(v.Waits)
}

// turnWaits returns what keeps a turn from ending: another turn before it, or a decision
// that a person has to make.
func turnWaits(d workflows.SessionDetail, acc workflows.MessageAccepted) string {
	now := d.View.Turn
	if now == nil {
		return ""
	}
	turn, ok := findTurn(d, acc)
	asks := ""
	if open := openApprovals(d); len(open) > 0 {
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

// atWork reports whether a turn has begun and not ended.
func atWork(d workflows.SessionDetail, n int) bool {
	for _, turn := range d.Turns {
		if turn.N == n {
			return !turn.Done()
		}
	}
	return false
}

// waitingText says what a session waits for, and what may help if all slots are in use.
func waitingText(waits string) string {
	text := "waiting for " + clean(waits)
	if strings.Contains(waits, "slots in use") {
		text += " (an idle session keeps its slot: `ctl session list` shows them, `ctl session park ID` frees one)"
	}
	return text
}
