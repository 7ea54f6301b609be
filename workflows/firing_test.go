package workflows

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"
	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/schedule"
	"fairlead.dev/fairlead/workflows/session"
)

// A schedule fires long after a person has signed what it starts.
func TestAScheduleStartsWhatAPrincipalSignedAndMayStillStart(t *testing.T) {
	const may = "  - {name: ops, roles: [operator], to: [ann], when: 'tenant == \"blue\"'}\n"
	nightly := schedule.FireInput{Schedule: "nightly", By: "root", Session: &session.Input{
		Options: session.Options{Tenant: "blue", CloseAfter: true, By: "root"}, Groups: []string{"admins"}, First: &protocol.Message{ID: "first", Text: "look"}}}
	other := nightly
	other.Schedule = "hourly"
	red := nightly
	red.Session = &session.Input{Options: session.Options{Tenant: "red"}, First: nightly.Session.First}
	// dora has her role by a group of her login.
	const byGroup = "  - {name: ops, roles: [operator], to: ['group:ops']}\n"
	dora, authority := loggedIn(t, "dora", "ops")
	for what, c := range map[string]struct {
		bindings string
		who      string
		in       schedule.FireInput
		change   func(string) string
		refused  string // a part of the reason; empty if it begins
	}{
		"what was signed a year ago":           {may, "ann", nightly, nil, ""},
		"with another prompt":                  {may, "ann", nightly, func(s string) string { return strings.Replace(s, "look", "leak", 1) }, "signature does not count"},
		"of another schedule":                  {may, "ann", other, nil, "it was signed for"},
		"renamed to this schedule":             {may, "ann", other, func(s string) string { return strings.Replace(s, "hourly", "nightly", 1) }, "signature does not count"},
		"signed by nobody":                     {may, "", nightly, nil, "not signed"},
		"signed by a stranger":                 {may, "mallory", nightly, nil, "signature does not count"},
		"by somebody who lost their role":      {"  - {name: view, roles: [viewer], to: [ann]}\n", "ann", nightly, nil, "deletes the schedule and creates it anew"},
		"by somebody who is revoked":           {may + "revoked: {people: [ann]}\n", "ann", nightly, nil, "deletes the schedule and creates it anew"},
		"by a group of a login that has ended": {byGroup + authority, "dora", nightly, nil, ""},
		"by a group that has no role now":      {strings.Replace(byGroup, "operator", "viewer", 1) + authority, "dora", nightly, nil, "deletes the schedule and creates it anew"},
		"for a tenant of others":               {may, "ann", red, nil, "deletes the schedule and creates it anew"},
	} {
		t.Run(what, func(t *testing.T) {
			w := &world{environment: newEnvironment(), t: t}
			w.guard(c.bindings, "ann", "bob")
			began := ""
			w.RegisterWorkflowWithOptions(schedule.Fire, workflow.RegisterOptions{Name: protocol.TypeFire})
			w.RegisterWorkflowWithOptions(func(_ workflow.Context, in session.Input) (protocol.SessionView, error) {
				began = in.Options.By + " says " + in.First.Text
				if !slices.Equal(in.Groups, map[string][]string{"dora": {"ops"}}[in.Options.By]) {
					t.Errorf("it began with the groups %q", in.Groups)
				}
				return protocol.SessionView{State: protocol.Closed, Turn: &protocol.TurnBrief{Status: "completed"}}, nil
			}, workflow.RegisterOptions{Name: protocol.TypeSession})
			w.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: protocol.ScheduleID("nightly") + "-" + w.Now().UTC().Format("2006-01-02T15:04:05Z")})
			raw, err := json.Marshal(c.in)
			if err != nil {
				t.Fatal(err)
			}
			if c.who != "" {
				key, _ := keyOf(t, c.who)
				if c.who == "dora" {
					key = dora
				}
				if raw, err = command.Sign(key, c.who, protocol.ScheduleID(c.in.Schedule), protocol.TypeFire, raw, w.Now().Add(-365*24*time.Hour)); err != nil {
					t.Fatal(err)
				}
			}
			if c.change != nil {
				raw = json.RawMessage(c.change(string(raw)))
			}
			w.ExecuteWorkflow(protocol.TypeFire, json.RawMessage(raw))
			err = w.GetWorkflowError()
			if c.refused == "" {
				if err != nil || began != c.who+" says look" {
					t.Errorf("it began %q: %v", began, err)
				}
				return
			}
			if text := fmt.Sprint(err); began != "" || !strings.Contains(text, c.refused) || !strings.Contains(text, protocol.RefusedForbidden) {
				t.Errorf("it began %q: %v", began, err)
			}
		})
	}
}

// loggedIn returns what signs for somebody whose login, a year before the clock of tests,
// named groups; and the part of an access file that lists the authority.
func loggedIn(t *testing.T, who string, groups ...string) (ssh.Signer, string) {
	t.Helper()
	ca, line := keyOf(t, "zoe")
	key, _ := keyOf(t, who)
	at := newEnvironment().Now().Add(-365 * 24 * time.Hour)
	cert := &ssh.Certificate{Key: key.PublicKey(), CertType: ssh.UserCert, KeyId: who, ValidPrincipals: []string{who},
		ValidAfter: uint64(at.Add(-time.Hour).Unix()), ValidBefore: uint64(at.Add(time.Hour).Unix())}
	if err := errors.Join(access.SetGroups(cert, groups), cert.SignCert(rand.Reader, ca)); err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewCertSigner(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return signer, fmt.Sprintf("authorities: [{key: %q, names: [%s]}]\n", line, who)
}
