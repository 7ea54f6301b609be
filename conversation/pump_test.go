package conversation

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

type pipeWire struct {
	io.Reader
	w    io.Writer
	size int64
	once sync.Once
	shut func()
}

func (w *pipeWire) Write(p []byte) (int, error) { return w.w.Write(p) }
func (w *pipeWire) Size() int64                 { return w.size }
func (w *pipeWire) Close() error                { w.once.Do(w.shut); return nil }

// newPipeWire returns a wire whose journal begins at 1000, the end that writes the
// journal, and the end that reads what the pump writes.
func newPipeWire(size int64) (*pipeWire, *io.PipeWriter, *io.PipeReader) {
	outR, outW := io.Pipe()
	inR, inW := io.Pipe()
	return &pipeWire{Reader: outR, w: inW, size: size, shut: func() { outR.CloseWithError(errGone); inW.CloseWithError(errGone) }}, outW, inR
}

type runResult struct {
	r   PumpResult
	err error
}

func runAside(ctx context.Context, w Wire, in PumpInput, sink Sink) chan runResult {
	done := make(chan runResult, 1)
	in.Prefix = "g1.p9"
	go func() {
		r, err := Run(ctx, w, in, sink, Options{})
		done <- runResult{r, err}
	}()
	return done
}

// synctest fails each of these tests if Run leaves a goroutine behind.

func TestRunReportsALostWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, out, _ := newPipeWire(1000)
		done := runAside(t.Context(), w, PumpInput{State: running()}, newKeeper())
		out.CloseWithError(errors.New("connection reset"))
		if got := <-done; !errors.Is(got.err, ErrWireLost) || !strings.Contains(got.err.Error(), "connection reset") {
			t.Errorf("%+v", got)
		}
	})
}

func TestRunReportsTheProcessEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, out, _ := newPipeWire(1000)
		done := runAside(t.Context(), w, PumpInput{State: running()}, newKeeper())
		if _, err := io.WriteString(out, "a torn li"); err != nil {
			t.Error(err)
		}
		out.Close()
		got := <-done
		if got.err != nil || got.r.Reason != ProcessEnded || got.r.State.Cursor.Offset != 1000 {
			t.Errorf("%+v", got)
		}
	})
}

func TestRunReturnsWhenCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, out, _ := newPipeWire(1000)
		ctx, cancel := context.WithCancel(t.Context())
		k := newKeeper()
		done := runAside(ctx, w, PumpInput{State: running()}, k)
		line := completed("a", "agentMessage", `,"text":"t"`) + "\n"
		if _, err := io.WriteString(out, line); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		cancel()
		got := <-done
		if got.err != nil || got.r.Reason != PumpCancelled || got.r.State.Cursor.Offset != 1000+int64(len(line)) || len(k.entries) != 1 {
			t.Errorf("%+v", got)
		}
		if _, err := out.Write([]byte("x")); err == nil {
			t.Error("the wire is open still")
		}
	})
}

func TestCancelledRunReadsTheBacklogOrCallsTheWireLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line := turnDone("completed", "") + "\n"
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		w, out, _ := newPipeWire(1000 + int64(len(line)))
		done := runAside(ctx, w, PumpInput{State: running()}, newKeeper())
		time.Sleep(time.Second)
		if _, err := io.WriteString(out, line); err != nil {
			t.Error(err)
		}
		if got := <-done; got.err != nil || got.r.Reason != TurnEnded {
			t.Errorf("the end of the turn was in the journal: %+v", got)
		}
		w, _, _ = newPipeWire(1001)
		if got := <-runAside(ctx, w, PumpInput{State: running()}, newKeeper()); !errors.Is(got.err, ErrWireLost) {
			t.Errorf("a journal that cannot be read: %+v", got)
		}
	})
}

func TestRunDoesNotWaitForAProcessThatDoesNotListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, _ := newPipeWire(1000) // nobody reads what the pump writes
		ctx, cancel := context.WithCancel(t.Context())
		done := runAside(ctx, w, PumpInput{State: running(), Sends: []Send{{ID: "i", Kind: SendInterrupt}}}, newKeeper())
		synctest.Wait()
		cancel()
		if got := <-done; !errors.Is(got.err, ErrWireLost) {
			t.Errorf("%+v", got)
		}
	})
}

func TestFailedWriteIsExplainedByTheReadingSide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := PumpInput{State: running(), Sends: []Send{{ID: "i", Kind: SendInterrupt}}}
		w, out, said := newPipeWire(1000)
		said.CloseWithError(errors.New("broken pipe"))
		done := runAside(t.Context(), w, in, newKeeper())
		time.Sleep(time.Second)
		out.Close()
		if got := <-done; got.err != nil || got.r.Reason != ProcessEnded || got.r.Deliveries[0].State != protocol.Sent {
			t.Errorf("%+v", got)
		}
		w, _, said = newPipeWire(1000)
		said.CloseWithError(errors.New("broken pipe"))
		if got := <-runAside(t.Context(), w, in, newKeeper()); !errors.Is(got.err, ErrWireLost) {
			t.Errorf("without an end: %+v", got)
		}
	})
}

type fullSink struct{ *keeper }

var errFull = errors.New("disk full")

func (fullSink) Entry(protocol.Entry) error { return errFull }

func TestSinkThatRefusesEndsThePump(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, out, _ := newPipeWire(1000)
		done := runAside(t.Context(), w, PumpInput{State: running()}, fullSink{newKeeper()})
		if _, err := io.WriteString(out, completed("a", "agentMessage", `,"text":"t"`)+"\n"); err != nil {
			t.Error(err)
		}
		if got := <-done; !errors.Is(got.err, errFull) {
			t.Errorf("%+v", got)
		}
	})
}

func TestRefusalIsWrittenBeforeThePumpReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, out, said := newPipeWire(1000)
		ctx, cancel := context.WithCancel(t.Context())
		done := runAside(ctx, w, PumpInput{State: running()}, newKeeper())
		if _, err := io.WriteString(out, `{"method":"nobody/knows","id":1,"params":{}}`+"\n"); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		text := make([]byte, 1000)
		n, err := said.Read(text)
		if err != nil || !strings.HasPrefix(string(text[:n]), "\n{\"id\":1,\"error\":") {
			t.Errorf("said %q, %v", text[:n], err)
		}
		if got := <-done; got.err != nil || got.r.Reason != PumpCancelled {
			t.Errorf("%+v", got)
		}
	})
}
