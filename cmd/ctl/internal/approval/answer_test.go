//go:build linux

package approval

import (
	"context"
	"encoding/json"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/terminaltest"
	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/protocol"
)

// atTerminal returns a ctl at a real terminal, at which a person types lines. It is not
// connected to a server.
func atTerminal(t *testing.T, lines ...string) (*core.App, *conn.Conn) {
	t.Helper()
	person, program := terminaltest.Open(t)
	a := &core.App{In: program, Out: program, Err: program}
	t.Cleanup(a.Close)
	for _, line := range lines {
		io.WriteString(person, line+"\n")
	}
	c, err := client.NewLazyClient(client.Options{HostPort: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return a, conn.With(a, c, nil)
}

// A person who declines or cancels at the prompt of `ctl approval answer` sends no answers:
// neither typed answers, nor answers from the command line, nor defaults.
func TestWhoeverIsAskedForAnswersMayDeclineOrCancel(t *testing.T) {
	ap := protocol.Approval{ID: "s.1", Session: "s", Offered: []string{"answer", "decline", "cancel"}, Questions: []protocol.Question{
		{ID: "region"}, {ID: "name"}, {ID: "notify", Default: "true"}}}
	for _, c := range []struct {
		lines []string
		want  string
	}{
		{[]string{"x", "/decline"}, "decline"},
		{[]string{"/cancel"}, "cancel"},
	} {
		a, tmp := atTerminal(t, c.lines...)
		d := protocol.Decide{Approval: ap.ID, Outcome: "answer"}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if err := fillAnswers(ctx, a, tmp, &ap, &d, []string{"region=eu-1"}, nil); err != nil {
			t.Errorf("%q: %v", c.lines, err)
		}
		if d.Outcome != c.want || d.Answers != nil || d.AnswersBlob != "" {
			t.Errorf("%q: the decision is %+v with %s", c.lines, d, d.Answers)
		}
	}
}

// While the questions are unknown, it is also unknown which answers are secret. A signal
// would leave them in Temporal's history.
func TestAnswersWaitUntilItIsKnownWhatIsSecret(t *testing.T) {
	d := protocol.Decide{Approval: "s.1", Outcome: "answer", Digest: "d"}
	err := fillAnswers(t.Context(), new(core.App), nil, nil, &d, []string{"password=hunter2"}, nil)
	if core.ExitCode(err) != core.ExitUnreachable || d.Answers != nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("answers are left: %s (%v)", d.Answers, err)
	}
}

// With --secret KEY=-, a secret typed at a terminal is not shown, as without the "-".
func TestASecretFromATerminalIsNotShown(t *testing.T) {
	person, program := terminaltest.Open(t)
	said := make(chan string, 1)
	a := &core.App{In: program, Out: program, Err: writerFunc(func(b []byte) (int, error) {
		go io.WriteString(person, "open sesame\n") // typed after ctl has asked for it
		return len(b), nil
	})}
	t.Cleanup(a.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	g := given{questions: []protocol.Question{{ID: "p", Secret: true}}, plain: map[string][]string{}, secret: map[string][]string{}}
	if err := takeSecret(ctx, a, "answer", "p=-", &g); err != nil || !slices.Equal(g.secret["p"], []string{"open sesame"}) {
		t.Errorf("the answers are %q (%v)", g.secret, err)
	}
	io.WriteString(program, "the end\n")
	go func() {
		var all strings.Builder
		for buf := make([]byte, 1<<10); !strings.Contains(all.String(), "the end"); {
			n, err := person.Read(buf)
			if all.Write(buf[:n]); err != nil {
				break
			}
		}
		said <- all.String()
	}()
	if shown := <-said; strings.Contains(shown, "sesame") {
		t.Errorf("the terminal shows %q", shown)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// If no worker is up, Temporal keeps a decision, and ctl shows the whole decision.
func TestADecisionThatIsLeftForTheNextWorkerIsShownWhole(t *testing.T) {
	d := protocol.Decide{Approval: "s.1", Digest: "d", Outcome: "answer", Reason: "I looked", By: "ann"}
	if err := setAnswers(&d, map[string][]string{"colour": {"blue"}, "tags": {"a", "b"}}); err != nil {
		t.Fatal(err)
	}
	got := flows.DecidedBy(protocol.SessionDetail{}, "s", d)
	if want := map[string][]string{"colour": {"blue"}, "tags": {"a", "b"}}; got.State != protocol.ApprovalDecided || !reflect.DeepEqual(got.Decision.Answers, want) || got.Decision.Reason != "I looked" {
		t.Errorf("it is %s, decided as %+v", got.State, got.Decision)
	}
	grant := protocol.Decide{Approval: "s.2", Outcome: "grant", Scope: "session", Grant: json.RawMessage(`{"network":{"enabled":true}}`)}
	if got := flows.DecidedBy(protocol.SessionDetail{}, "s", grant); string(got.Decision.Grant) != string(grant.Grant) || got.Decision.Scope != "session" {
		t.Errorf("it is decided as %+v", got.Decision)
	}
}
