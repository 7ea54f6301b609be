package authority

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/protocol"
)

// A catcher is the end of a chain of interceptors.
type catcher struct {
	interceptor.ClientOutboundInterceptorBase
	args []any
}

func (c *catcher) ExecuteWorkflow(_ context.Context, in *interceptor.ClientExecuteWorkflowInput) (client.WorkflowRun, error) {
	c.args = in.Args
	return nil, nil
}

func TestAWorkerSignsForNobodyWhoseCommandWasNotJudged(t *testing.T) {
	key, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	for judged, want := range map[string]bool{"": false, "mallory": false, "ann": true} {
		end := &catcher{}
		_, err := Sender(key).InterceptClient(end).ExecuteWorkflow(command.WithPrincipal(t.Context(), judged), &interceptor.ClientExecuteWorkflowInput{WorkflowType: protocol.TypeSession,
			Options: &client.StartWorkflowOptions{ID: protocol.SessionID("b-1")}, Args: []any{json.RawMessage(`{"id":"b-1","options":{"by":"ann"}}`)}})
		if want != (err == nil) || want != (len(end.args) == 1) || !want && !errors.Is(err, command.ErrNotJudged) {
			t.Errorf("with a command of %q a session of ann is sent with %v: %v", judged, end.args, err)
		}
	}
}

// A role that is bound to a group of the identity provider also counts for what a worker
// does for the person, such as the sessions of a batch.
func TestAWorkerSignsWithTheGroupsOfThePerson(t *testing.T) {
	key, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key.PublicKey())))
	a, err := access.Parse(fmt.Appendf(nil, "people: [{name: root, keys: []}]\nworkers: [%q]\ngroups: [{name: ops, members: [root]}]\nbindings: [{name: ops, roles: [operator], to: ['group:ops']}]\n", line))
	if err != nil {
		t.Fatal(err)
	}
	id := protocol.SessionID("b-1")
	judge := func(ctx context.Context) Verdict {
		t.Helper()
		ctx = command.WithPrincipal(ctx, "dora@example.com")
		end := &catcher{}
		if _, err := Sender(key).InterceptClient(end).ExecuteWorkflow(ctx, &interceptor.ClientExecuteWorkflowInput{WorkflowType: protocol.TypeSession,
			Options: &client.StartWorkflowOptions{ID: id}, Args: []any{json.RawMessage(`{"id":"b-1","options":{"by":"dora@example.com"}}`)}}); err != nil {
			t.Fatal(err)
		}
		return Fixed(a, time.Now).Judge(Command{Verb: access.SessionStart, Received: command.Received{Workflow: id, Name: protocol.TypeSession, Raw: end.args[0].(json.RawMessage)}})
	}
	if v := judge(command.WithGroups(t.Context(), []string{"ops"})); v.Refused != "" || v.Principal != "dora@example.com" || !slices.Equal(v.Groups, []string{"ops"}) {
		t.Errorf("with the group: %+v", v)
	}
	if v := judge(t.Context()); v.Refused == "" {
		t.Errorf("without it: %+v", v)
	}
}

func TestWhoStartsAWorkflowCannotChooseTheGroups(t *testing.T) {
	type input struct {
		protocol.Commanded
		By     string
		Groups []string
	}
	given := []any{input{By: "dora", Groups: []string{"root"}}}
	for _, groups := range [][]string{{"ops"}, nil} {
		if got := grouped(given, groups)[0].(input); !slices.Equal(got.Groups, groups) || got.By != "dora" {
			t.Errorf("%+v, want groups %q", got, groups)
		}
	}
	if given[0].(input).Groups[0] != "root" {
		t.Error("the arguments of the caller were changed")
	}
	for _, args := range [][]any{{}, {nil}, {"text"}, {struct{ Groups string }{"x"}}} {
		if got := grouped(args, []string{"ops"}); len(got) != len(args) {
			t.Errorf("%v became %v", args, got)
		}
	}
}
