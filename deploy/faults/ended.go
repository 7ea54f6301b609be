package main

import (
	"context"
	"fmt"
	"syscall"

	"fairlead.dev/fairlead/workflows"
)

// afterEnd is what must hold after codex was ended: the session knows, what was
// open is void, and the next message goes on with the same thread in the next
// process.
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
		if _, err := r.until(ctx, r.id, "to void what was asked", func(d workflows.SessionDetail) bool { return len(d.View.Requests) == 0 }); err != nil {
			return err
		}
		if t.Status != "completed" && t.Error == nil {
			return fmt.Errorf("turn %d is %s, and nobody says why", turn, t.Status)
		}
	}
	if err := r.remember(ctx); err != nil {
		return err
	}
	d, err := r.until(ctx, r.id, "to be seen", func(workflows.SessionDetail) bool { return true })
	if err != nil {
		return err
	}
	if p := d.View.Process; r.process > 0 && r.moment.name != "starting" && (p == nil || p.Incarnation != r.process+1) {
		return fmt.Errorf("the process is %+v, it was incarnation %d before codex was ended", p, r.process)
	}
	return nil
}

// afterTrouble is what must hold where codex may have gone on or not: the turn
// comes to an end that says what is known, and the thread goes on.
func (r *run) afterTrouble(ctx context.Context) error {
	if err := r.moment.after(ctx, r); err != nil {
		return err
	}
	for word, e := range r.effects {
		r.effects[word] = effect{0, e.max} // a full disk takes no line
	}
	return r.remember(ctx)
}

// bounds says what effects commands may have had by now. What was decided may
// have had its effect or not; what was not decided has had none.
func (r *run) bounds() {
	for word, e := range r.effects {
		e.min = 0
		switch r.moment.name {
		case "command running":
			e.min = 1
		case "request open", "two requests open", "written, not acknowledged":
			e.max = 0
		}
		r.effects[word] = e
	}
}

func (r *run) signalCodexCont() { r.signalCodex(syscall.SIGCONT) }

// wroteLate takes down that a writer who had lost its right wrote all the same.
func (r *run) wroteLate(format string, args ...any) {
	r.logf(format, args...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late = append(r.late, fmt.Sprintf(format, args...))
}
