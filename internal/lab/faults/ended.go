package main

import (
	"context"
	"fmt"
	"syscall"

	"fairlead.dev/fairlead/internal/protocol"
)

// afterEnd checks what must hold after codex was ended: the session knows,
// open requests are void, and the next message continues the same thread in the
// next process.
func (r *run) afterEnd(ctx context.Context) error {
	<-r.struck
	r.bounds()
	if err := r.moment.let(ctx, r); err != nil {
		return err
	}
	turn := len(r.said)
	if !r.moment.quiet {
		t, err := r.turn(ctx, turn)
		if err != nil {
			return err
		}
		r.flowed()
		if _, err := r.until(ctx, r.id, "to void what was asked", func(d protocol.SessionDetail) bool { return len(d.View.Requests) == 0 }); err != nil {
			return err
		}
		if t.Status != "completed" && t.Error == nil {
			return fmt.Errorf("turn %d is %s, and nobody says why", turn, t.Status)
		}
	}
	if err := r.goOn(ctx); err != nil {
		return err
	}
	if len(r.approved) == 1 && !r.fault.torn {
		if err := r.askAgain(ctx); err != nil {
			return err
		}
	}
	d, err := r.until(ctx, r.id, "to be seen", func(protocol.SessionDetail) bool { return true })
	if err != nil {
		return err
	}
	if p := d.View.Process; r.process > 0 && r.moment.name != "starting" && (p == nil || p.Incarnation != r.process+1 && !(r.anew && p.Incarnation == r.process+2)) {
		return fmt.Errorf("the process is %+v, it was incarnation %d before codex was ended", p, r.process)
	}
	return nil
}

// afterTrouble checks what must hold when codex may or may not have survived:
// the turn ends with a status that says what is known, and the thread
// continues.
func (r *run) afterTrouble(ctx context.Context) error {
	after := r.moment.after
	if r.moment.quiet {
		after = doNothing
	}
	if err := after(ctx, r); err != nil {
		return err
	}
	for word, e := range r.effects {
		r.effects[word] = effect{0, e.max} // nothing can be written to a full disk
	}
	<-r.over
	return r.goOn(ctx)
}

// goOn runs a turn after the fault. If no turn was running, the first message
// may be what discovers that codex is gone: its turn is then reported as
// unknown, and the next message succeeds. The same can happen to the first
// message after a reboot that hit the process while it was being started.
func (r *run) goOn(ctx context.Context) error {
	n := len(r.said)
	err := r.remember(ctx)
	st := r.statusOf(ctx, n+1)
	honest := (r.moment.quiet || r.fault.spares) && st == "interrupted" || st == "unknown"
	if err != nil && honest {
		r.logf("%v", err)
		r.anew = r.fault.ends && !r.moment.quiet
		err = r.remember(ctx)
	}
	return err
}

// askAgain makes the model ask for the same thing again. A decision that never
// reached codex is reused now, once. A decision that may already have had its
// effect is not reused: a person is asked and told so.
func (r *run) askAgain(ctx context.Context) error {
	before, err := r.until(ctx, r.id, "to be seen", func(protocol.SessionDetail) bool { return true })
	if err != nil {
		return err
	}
	if before.Turns[0].Status == "completed" {
		return nil // nothing was cut off
	}
	first := before.Approvals[0]
	if err := r.send(ctx, "please ask for a command for "+r.id+" again"); err != nil {
		return err
	}
	n := len(r.said)
	var turn protocol.TurnView
	d, err := r.until(ctx, r.id, "to ask again, or to go on", func(d protocol.SessionDetail) bool {
		turn = d.Turns[len(d.Turns)-1]
		return turn.N == n && (turn.Done() || len(d.View.Requests) == 1 && d.View.State == protocol.Waiting)
	})
	if err != nil {
		return err
	}
	e := r.effects["one"]
	r.effects["one"] = effect{1, e.max + 1}
	if turn.Done() {
		r.logf("the earlier decision served")
		if first.Decision == nil || r.resolvedBefore() || r.moment.name == "written, not acknowledged" {
			r.wroteLate("%s served although it was never given, or may have had its effect: %+v", first.ID, first)
		}
		r.effects["one"] = effect{1, 1}
		if turn.Status != "completed" {
			return fmt.Errorf("the turn that asked again is %s (%+v)", turn.Status, turn.Error)
		}
		return nil
	}
	var anew protocol.Approval
	for _, a := range d.Approvals {
		if a.State == protocol.ApprovalOpen {
			anew = a
		}
	}
	r.logf("asked anew: %s, earlier %+v", anew.ID, anew.Earlier)
	switch {
	case anew.Digest != first.Digest:
		return fmt.Errorf("the same ask has two digests: %s and %s", first.Digest, anew.Digest)
	case (anew.Earlier != nil) != (first.Decision != nil):
		return fmt.Errorf("decided before: %+v; the person is told %+v", first.Decision, anew.Earlier)
	case anew.Earlier != nil && anew.Earlier.State == protocol.ApprovalDecided:
		return fmt.Errorf("%s never reached codex, and did not serve: %+v", first.ID, anew.Earlier)
	}
	if err := r.accept(ctx, anew); err != nil {
		return err
	}
	if turn, err = r.turn(ctx, n); err == nil && turn.Status != "completed" {
		err = fmt.Errorf("the turn that asked again is %s (%+v)", turn.Status, turn.Error)
	}
	return err
}

func (r *run) resolvedBefore() bool {
	data, err := r.readJournals()
	if err != nil {
		return false // the judge reports it
	}
	for _, times := range scan(data[1]).asked {
		if times > 0 {
			return true
		}
	}
	return false
}

// bounds sets how often each command may have taken effect by now. A decided
// command may have taken effect or not; an undecided one has not.
func (r *run) bounds() {
	for word, e := range r.effects {
		e.min = 0
		switch r.moment.name {
		case "command running":
			e.min = 1
		case "request open", "two requests open", "decided too late", "written, not acknowledged":
			e.max = 0
		}
		r.effects[word] = e
	}
}

func (r *run) signalCodexCont() { r.signalCodex(syscall.SIGCONT) }

// wroteLate records a write by a writer that had lost its right to write.
func (r *run) wroteLate(format string, args ...any) {
	r.logf(format, args...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late = append(r.late, fmt.Sprintf(format, args...))
}
