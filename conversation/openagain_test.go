package conversation

import (
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// Two requests to start a thread would make two threads, and codex may take seconds to
// start one.
func TestAThreadThatWasAskedForIsNotAskedForAgain(t *testing.T) {
	const (
		greeted = `{"id":"g1.p9.initialize.0","result":{"userAgent":"f/0.169.0 (x)"}}`
		account = `{"id":"g1.p9.account.0","result":{"account":null,"requiresOpenaiAuth":false}}`
		models  = `{"id":"g1.p9.models.0","result":{"data":[],"nextCursor":null}}`
		busy    = `{"id":"g1.p9.thread.0","error":{"code":-32001,"message":"Server overloaded"}}`
	)
	starts := func(s *stage) (n int) {
		for _, l := range s.said {
			if strings.Contains(l, `"thread/start"`) {
				n++
			}
		}
		return n
	}
	begin := func(t *testing.T, backlog ...string) *stage {
		in := PumpInput{State: PumpState{Cursor: protocol.Cursor{Incarnation: 1}}, Thread: ThreadSpec{CWD: "/w", Sandbox: "read-only", ApprovalPolicy: "never"},
			Sends: []Send{turn(1, "m", "hello")}}
		return perform(t, in, Options{Attempt: 2}, backlog...)
	}
	for name, c := range map[string]struct{ before, after []string }{
		"account was answered":        {before: []string{greeted, account}},
		"models were listed":          {before: []string{greeted, models}},
		"account is answered later":   {before: []string{greeted}, after: []string{account}},
		"models are listed later":     {before: []string{greeted}, after: []string{models}},
		"both, each on its own side":  {before: []string{greeted, models}, after: []string{account}},
		"answered between two greets": {before: []string{greeted}, after: []string{models, account}},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, c.before...)
			s.wait(lookFirst - time.Second)
			s.hear(c.after...)
			s.wait(40 * time.Second)
			s.attached()
			if n := starts(s); n != 0 {
				t.Fatalf("the thread was asked for %d times more:\n%s", n, strings.Join(s.said, "\n"))
			}
			s.hear(`{"id":"g1.p9.thread.0","result":{"thread":{"id":"thread-1"},"model":"m"}}`)
			if said := strings.Join(s.said, "\n"); !strings.Contains(said, `"threadId":"thread-1"`) || starts(s) != 0 {
				t.Errorf("once it was there, said to codex:\n%s", said)
			}
		})
	}
	t.Run("no sign of it", func(t *testing.T) {
		s := begin(t, greeted)
		s.wait(lookFirst - time.Second)
		if n := starts(s); n != 0 {
			t.Fatalf("nothing was waited for:\n%s", strings.Join(s.said, "\n"))
		}
		s.wait(2 * time.Second)
		// The asks that follow thread/start show the next attempt that the thread was asked
		// for.
		said := strings.Join(s.said, "\n")
		thread, account, models := strings.Index(said, `"thread/start"`), strings.Index(said, `"account/read"`), strings.Index(said, `"model/list"`)
		if starts(s) != 1 || account < thread || models < thread {
			t.Errorf("said to codex:\n%s", said)
		}
	})
	t.Run("codex was too busy for it", func(t *testing.T) {
		s := begin(t, greeted, models, busy)
		s.wait(10 * time.Second)
		if n := starts(s); n != 1 {
			t.Errorf("after an overload the thread was asked for %d times:\n%s", n, strings.Join(s.said, "\n"))
		}
	})
}
