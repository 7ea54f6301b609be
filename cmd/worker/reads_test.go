package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/owned"
)

// known are objects by name. A nil object cannot be asked for now.
type known map[string]*access.Object

func (k known) get(name string) (access.Object, bool, error) {
	o, ok := k[name]
	if ok && o == nil {
		return access.Object{}, false, errors.New("no answer")
	}
	if !ok {
		return access.Object{}, false, nil
	}
	return *o, true, nil
}

func (k known) Session(_ context.Context, id string) (access.Object, bool, error) {
	return k.get("session." + id)
}

func (k known) Batch(_ context.Context, id string) (access.Object, bool, error) {
	return k.get("batch." + id)
}

func (k known) Host(context.Context, string) (access.Object, bool, error) {
	return access.Object{}, false, errors.New("a start reads no host")
}

func (k known) Login(context.Context, string, string) (access.Object, bool, error) {
	return access.Object{}, false, errors.New("a start reads no login")
}

func TestWhatAStartReadsIsJudgedByTheAccessFile(t *testing.T) {
	a, err := access.Parse([]byte(`people: [{name: root, keys: []}, {name: ann, keys: []}, {name: bob, keys: []}, {name: vic, keys: []}]
groups: [{name: readers, members: [root]}]
bindings:
  - {name: all, roles: [viewer], to: [vic, 'group:readers']}
  - {name: own, roles: [operator], to: [ann, bob], when: owner == who}
`))
	if err != nil {
		t.Fatal(err)
	}
	if readsOf(nil, known{}) != nil {
		t.Error("without an access file somebody is asked")
	}
	may := readsOf(authority.Fixed(a, time.Now), known{"session.s1": {Session: "s1", Owner: "ann"}, "batch.b1": {Owner: "bob"}, "session.away": nil})
	for _, c := range []struct {
		who    string
		groups []string
		of     owned.Owner
		blind  bool
		want   bool
		fails  bool
	}{
		{who: "vic", of: owned.Owner{Kind: owned.Session, ID: "away"}, want: true},
		{who: "dora", groups: []string{"readers"}, of: owned.Owner{Kind: owned.Session, ID: "gone"}, want: true},
		{who: "dora", of: owned.Owner{Kind: owned.Session, ID: "s1"}},
		{who: "ann", of: owned.Owner{Kind: owned.Session, ID: "s1"}, want: true},
		{who: "ann", of: owned.Owner{Kind: owned.Session, ID: "s1"}, blind: true},
		{who: "bob", of: owned.Owner{Kind: owned.Session, ID: "s1"}},
		{who: "ann", of: owned.Owner{Kind: owned.Session, ID: "gone"}},
		{who: "ann", of: owned.Owner{Kind: owned.Session, ID: "away"}, fails: true},
		{who: "bob", of: owned.Owner{Kind: owned.Batch, ID: "b1"}, want: true},
		{who: "ann", of: owned.Owner{Kind: owned.Batch, ID: "b1"}},
		{who: "ann", of: owned.Owner{Kind: owned.Schedule, ID: "s1"}},
		{who: "vic", of: owned.Owner{Kind: owned.Schedule, ID: "s1"}, want: true},
	} {
		why, err := may(t.Context(), c.who, c.groups, c.of, c.blind)
		if (err != nil) != c.fails || !c.fails && (why == "") != c.want {
			t.Errorf("%+v: %q, %v", c, why, err)
		}
	}
}
