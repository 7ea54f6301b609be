package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// A moment is the state in which a session is struck.
type moment struct {
	name string
	// before brings the session to the moment.
	before func(context.Context, *run) error
	// act runs up to spread before the strike, at random; nil: nothing.
	act    func(context.Context, *run) error
	spread time.Duration
	// after brings the turn to its end, during the fault and after it.
	after func(context.Context, *run) error
	// let releases what a person or the model holds back, for when the process
	// has ended and nobody decides any more.
	let func(context.Context, *run) error
	// quiet: no turn runs, so the end of a process is noticed later.
	quiet bool
	// closes: the session is closing.
	closes bool
	// point, if set, says how the moment is held exactly.
	point *point
}

// moments are in the order of the matrix.
var moments = slices.Concat([]*moment{
	{name: "starting", spread: 2 * time.Second, before: doNothing, act: startAndSpeak, after: completes(1), let: openGate},
	{name: "message just sent", spread: 300 * time.Millisecond, before: started, act: speak, after: completes(2), let: openGate},
	{name: "mid-stream", spread: 300 * time.Millisecond, before: streaming, act: openGate, after: completes(1), let: openGate},
	{name: "command running", before: commandRuns, after: commandEnds, let: freeCommand},
	{name: "request open", before: asks(1), after: decided(1), let: doNothing},
	{name: "two requests open", before: asks(2), after: decided(2), let: doNothing},
	{name: "decision under way", spread: 300 * time.Millisecond, before: asks(1), act: decideAll, after: completes(1), let: doNothing},
	{name: "decided too late", before: asks(1), after: decided(1), let: decideAll},
	{name: "written, not acknowledged", before: asks(1), act: writtenOnly, after: wakeAndComplete, let: doNothing},
	{name: "interrupt just sent", spread: 300 * time.Millisecond, before: streaming, act: interrupt, after: interrupted, let: openGate},
	{name: "idle", before: quietly, after: goesOn, let: doNothing, quiet: true},
	{name: "closing", spread: 500 * time.Millisecond, before: quietly, act: closeIt, after: doNothing, let: doNothing, quiet: true, closes: true},
}, gatedMoments, points)

func doNothing(context.Context, *run) error { return nil }

// streams returns the prompt of a streamed turn and sets the text that must
// result.
func (r *run) streams() string {
	r.effects = map[string]effect{"streamed": {1, 1}}
	r.want, r.text = "completed", fmt.Sprintf("%s\n\nThen it ran for %s.", words, r.id)
	return "please stream it for " + r.id
}

func startAndSpeak(ctx context.Context, r *run) error {
	r.Model.Release(r.id)
	text := r.streams()
	if err := r.start(ctx); err != nil {
		return err
	}
	return r.send(ctx, text)
}

func started(ctx context.Context, r *run) error {
	if err := r.start(ctx); err != nil {
		return err
	}
	if err := r.hello(ctx); err != nil {
		return err
	}
	r.Model.Release(r.id)
	return r.idle(ctx)
}

func speak(ctx context.Context, r *run) error { return r.send(ctx, r.streams()) }

func streaming(ctx context.Context, r *run) error {
	if err := r.start(ctx); err != nil {
		return err
	}
	if err := r.send(ctx, r.streams()); err != nil {
		return err
	}
	return r.waitsAtGate(ctx)
}

func openGate(_ context.Context, r *run) error {
	r.logf("the gate opens")
	r.Model.Release(r.id)
	return nil
}

// completes waits for the end of the struck turn n.
func completes(n int) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		if _, err := r.turn(ctx, n); err != nil {
			return err
		}
		r.flowed()
		return nil
	}
}

func commandRuns(ctx context.Context, r *run) error {
	r.effects = map[string]effect{"long": {1, 1}}
	r.want, r.text = "completed", fmt.Sprintf("It takes a while.\n\nAfter a while it ended for %s.", r.id)
	if err := r.start(ctx); err != nil {
		return err
	}
	if err := r.send(ctx, "please run a long command for "+r.id); err != nil {
		return err
	}
	return again(ctx, "the command of "+r.id+" to run", func(context.Context) error {
		n, err := r.lines()
		if err == nil && n["long"] == 0 {
			err = fmt.Errorf("it has left no line yet")
		}
		return err
	})
}

func freeCommand(_ context.Context, r *run) error {
	r.logf("the command may end")
	return r.letGo()
}

func commandEnds(ctx context.Context, r *run) error {
	<-r.struck
	r.pause(ctx, 2*time.Second)
	if err := freeCommand(ctx, r); err != nil {
		return err
	}
	return completes(1)(ctx, r)
}

func asks(n int) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		prompt := "please ask for a command for " + r.id
		r.effects = map[string]effect{"one": {1, 1}}
		r.want, r.text = "completed", fmt.Sprintf("I need a command.\n\nIt said one ran for %s.", r.id)
		if n == 2 {
			prompt = "please ask for two commands for " + r.id
			r.effects["two"] = effect{1, 1}
			r.text = fmt.Sprintf("They said one ran and two ran for %s.", r.id)
		}
		if err := r.start(ctx); err != nil {
			return err
		}
		if err := r.send(ctx, prompt); err != nil {
			return err
		}
		return r.asked(ctx, n)
	}
}

// decideAll decides all open approvals, in an order that the seed decides.
func decideAll(ctx context.Context, r *run) error {
	for _, i := range r.rng.Perm(len(r.approved)) {
		if err := r.accept(ctx, r.approved[i]); err != nil {
			return err
		}
		r.pause(ctx, 200*time.Millisecond)
	}
	return nil
}

func decided(n int) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		<-r.struck
		r.pause(ctx, 2*time.Second)
		if err := decideAll(ctx, r); err != nil {
			return err
		}
		return completes(1)(ctx, r)
	}
}

// writtenOnly writes the decision while codex is stopped, so that codex does
// not read it.
func writtenOnly(ctx context.Context, r *run) error {
	if n := r.signalCodex(syscall.SIGSTOP); n == 0 {
		return fmt.Errorf("no codex of %s was found to stop", r.id)
	}
	if err := decideAll(ctx, r); err != nil {
		return err
	}
	return again(ctx, "the decision of "+r.id+" to be written", func(context.Context) error {
		text, err := peek(r.proc(1) + "/in")
		if err == nil && !answered(text) {
			err = fmt.Errorf("in the input there is %q", text)
		}
		return err
	})
}

func wakeAndComplete(ctx context.Context, r *run) error {
	<-r.struck
	r.pause(ctx, 3*time.Second)
	r.logf("codex goes on")
	r.signalCodex(syscall.SIGCONT)
	return completes(1)(ctx, r)
}

// signalCodex signals the session's codex processes and returns how many there
// were.
func (r *run) signalCodex(sig syscall.Signal) (n int) {
	for _, pid := range r.CodexOf(r.id) {
		if syscall.Kill(pid, sig) == nil {
			n++
		}
	}
	r.logf("%v to %d codex processes", sig, n)
	return n
}

func interrupt(ctx context.Context, r *run) error {
	r.logf("interrupt")
	r.want, r.effects = "interrupted", nil
	return r.signal(ctx, r.id, protocol.SignalInterrupt, protocol.Interrupt{By: "faults"})
}

func interrupted(ctx context.Context, r *run) error {
	if err := completes(1)(ctx, r); err != nil {
		return err
	}
	r.Model.Release(r.id)
	return r.remember(ctx)
}

func quietly(ctx context.Context, r *run) error {
	if err := r.start(ctx); err != nil {
		return err
	}
	if err := r.hello(ctx); err != nil {
		return err
	}
	return r.idle(ctx)
}

func goesOn(ctx context.Context, r *run) error {
	<-r.struck
	if err := r.remember(ctx); err != nil {
		return err
	}
	r.flowed()
	return nil
}

func closeIt(ctx context.Context, r *run) error {
	var err error
	if r.journals, err = r.readJournals(); err != nil {
		return err
	}
	r.seen = processesOf(r.id, r.dir())
	r.logf("close")
	return r.signal(ctx, r.id, protocol.SignalClose, protocol.Close{By: "faults"})
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
