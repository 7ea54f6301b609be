package conversation

import (
	"fmt"
	"testing"
	"time"

	"fairlead.dev/fairlead/conversation/wire"
)

const nameRefused = `{"id":"g1.p9.name.%d","error":{"code":-32603,"message":"failed to set thread name: rollout is empty"}}`

// Codex stores a name in the thread's history, which may not be written yet when the
// first turn begins (codex 0.169.0 on a busy machine).
func TestANameThatCodexCannotStoreYetIsSentAgain(t *testing.T) {
	in := PumpInput{State: running(), Thread: ThreadSpec{Name: "the release"}}
	s := perform(t, in, Options{})
	if n := len(s.saidMethod(wire.MethodName)); n != 1 {
		t.Fatalf("the name was sent %d times; said %q", n, s.said)
	}
	s.hear(fmt.Sprintf(nameRefused, 0))
	s.wait(time.Second)
	if n := len(s.saidMethod(wire.MethodName)); n != 2 {
		t.Fatalf("the name was sent %d times", n)
	}
	s.hear(`{"id":"g1.p9.name.1","result":{}}`)
	s.wait(time.Minute)
	if n := len(s.saidMethod(wire.MethodName)); n != 2 || s.m.st.Named != "the release" || len(s.sink.entries) != 0 {
		t.Errorf("the name was sent %d times; named %q; entries %+v", n, s.m.st.Named, s.sink.entries)
	}

	// Two refusals of one attempt count once.
	s = perform(t, in, Options{})
	s.hear(fmt.Sprintf(nameRefused, 0))
	s.wait(time.Second)
	s.hear(fmt.Sprintf(nameRefused, 0))
	s.wait(time.Second)
	if n := len(s.saidMethod(wire.MethodName)); n != 2 {
		t.Errorf("the name was sent %d times; said %q", n, s.said)
	}

	// The refusal may arrive after the turn's end. It is not final either.
	s = perform(t, in, Options{})
	s.hear(turnDone("completed", ""), fmt.Sprintf(nameRefused, 0))
	s.wait(time.Minute)
	if r := s.result(TurnEnded); r.State.Named != "" || len(s.sink.entries) != 1 { // the turn's end
		t.Errorf("named %q; entries %+v", r.State.Named, s.sink.entries)
	}

	// If codex refuses the name each time, the pump accepts the refusal, because a turn
	// does not need the name.
	s = perform(t, in, Options{})
	for try := range 20 {
		s.hear(fmt.Sprintf(nameRefused, try))
		s.wait(10 * time.Second)
	}
	if n := len(s.saidMethod(wire.MethodName)); n < 3 || n > 10 || s.m.st.Named != "the release" || len(s.sink.entries) != 1 {
		t.Errorf("the name was sent %d times; named %q; entries %+v", n, s.m.st.Named, s.sink.entries)
	}

	// Between turns the whole history is written.
	in.State = opened()
	s = perform(t, in, Options{})
	s.hear(fmt.Sprintf(nameRefused, 0))
	if r := s.result(Bound); r.State.Named != "the release" || len(s.saidMethod(wire.MethodName)) != 1 {
		t.Errorf("named %q; said %q", r.State.Named, s.said)
	}
}
