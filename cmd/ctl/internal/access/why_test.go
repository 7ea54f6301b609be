package access

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/protocol"
)

// A server answers queries by the ids of workflows.
type server struct {
	client.Client
	answers map[string]any
}

func (s server) QueryWorkflow(_ context.Context, id, _, _ string, _ ...any) (converter.EncodedValue, error) {
	v, ok := s.answers[id]
	if !ok {
		return nil, serviceerror.NewNotFound("no workflow " + id)
	}
	all, err := converter.GetDefaultDataConverter().ToPayloads(v)
	return client.NewValue(all), err
}

func TestWhyKnowsOfSessionsApprovalsAndHostsWhatAWorkerKnows(t *testing.T) {
	f, err := access.Parse([]byte(`
people: [{name: alice}, {name: bob}]
bindings:
  - {name: decide, roles: [approver], to: [alice, bob], when: 'owner != who'}
  - {name: ci, roles: [admin], to: [bob], when: 'host.name != "" && host.labels.get("pool") == "ci"'}
  - {name: bare, roles: [admin], to: [alice], when: 'host.name != "" && host.labels.get("pool") == ""'}
`))
	if err != nil {
		t.Fatal(err)
	}
	running := server{answers: map[string]any{
		protocol.SessionID("s"):    access.Object{Session: "s", Owner: "alice"},
		protocol.SessionID("v1.2"): access.Object{Session: "v1.2", Owner: "bob"},
		protocol.PoolID(""):        protocol.HostView{Name: "web-1", Spec: &protocol.HostSpec{Name: "web-1"}, Labels: map[string]string{"pool": "ci"}},
		protocol.PoolID("bare"):    protocol.HostView{Name: "web-1", Spec: &protocol.HostSpec{Name: "web-1"}, Labels: map[string]string{}},
	}}
	for _, c := range []struct {
		who          string
		verb         access.Verb
		object, zone string
		down, want   bool
		says         string
	}{
		{who: "alice", verb: access.ApprovalDecide, object: "s.1"},
		{who: "bob", verb: access.ApprovalDecide, object: "s.1", want: true},
		{who: "bob", verb: access.ApprovalDecide, object: "s", want: true},
		{who: "alice", verb: access.ApprovalDecide, object: "v1.2.7", want: true},
		{who: "bob", verb: access.HostExec, object: "host:web-1", want: true},
		{who: "bob", verb: access.HostExec, object: "host:web-1", zone: "bare"},
		{who: "alice", verb: access.HostExec, object: "host:web-1", zone: "bare", want: true},
		{who: "bob", verb: access.HostExec, object: "host:web-1", zone: "none", says: "the labels of host web-1 are not known"},
		{who: "bob", verb: access.HostExec, object: "host:web-1", down: true, says: "the labels of host web-1 are not known"},
	} {
		var notes strings.Builder
		a := &core.App{Err: &notes}
		open := func(context.Context, *core.App) (*conn.Conn, error) {
			if c.down {
				return nil, errors.New("no address is known")
			}
			return conn.With(a, running, nil), nil
		}
		o, err := object(t.Context(), a, open, "why", c.zone, c.object)
		if err != nil {
			t.Errorf("%s: %v", c.object, err)
			continue
		}
		if got := f.Decide(access.Request{Who: c.who, Verb: c.verb, Object: sent(t, o)}); got.Allowed != c.want {
			t.Errorf("whether %s may %s %s in zone %q: %+v, of %+v", c.who, c.verb, c.object, c.zone, got, o)
		}
		if !strings.HasPrefix(notes.String(), c.says) || c.says == "" && notes.Len() > 0 {
			t.Errorf("%s of %s is answered with the note %q, want %q", c.who, c.object, notes.String(), c.says)
		}
	}
}

// sent returns an object as a worker gets it that is asked about it.
func sent(t *testing.T, o access.Object) (got access.Object) {
	t.Helper()
	all, err := converter.GetDefaultDataConverter().ToPayloads(o)
	if err == nil {
		err = converter.GetDefaultDataConverter().FromPayloads(all, &got)
	}
	if err != nil {
		t.Fatal(err)
	}
	return got
}
