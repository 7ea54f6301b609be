package notices

import (
	"context"
	"time"

	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/notify"
	"fairlead.dev/fairlead/internal/protocol"
)

// Activities watch for events and send notices.
type Activities struct {
	site   *site.Site
	sender notify.Sender
}

// New makes the activities of a worker.
func New(s *site.Site) *Activities {
	return &Activities{site: s, sender: notify.Sender{Now: s.Now}}
}

// elsewhere is the pause before a task goes to another worker, if this one has no rules.
const elsewhere = 15 * time.Second

// rules returns the rules in force.
func (a *Activities) rules() (*notify.Rules, error) {
	if a.site.Notify == nil || a.site.Temporal == nil {
		return nil, temporal.NewApplicationErrorWithOptions("this worker has no notification rules: set notifications in its config, as in those of the other workers of its zone",
			protocol.ErrTypeNewer, temporal.ApplicationErrorOptions{NextRetryDelay: elsewhere})
	}
	return a.site.Notify.Current(), nil
}

// PlanTestInput is the input of PlanTest.
type PlanTestInput struct {
	Key string    `json:"key"`
	To  string    `json:"to"`
	By  string    `json:"by,omitempty"`
	Now time.Time `json:"now"`
}

// PlanTestResult has the notices of a test, or says why there are none.
type PlanTestResult struct {
	Notices []protocol.Notice `json:"notices,omitempty"`
	Problem string            `json:"problem,omitempty"`
}

// PlanTest returns whom a test reaches by which channel.
func (a *Activities) PlanTest(_ context.Context, in PlanTestInput) (PlanTestResult, error) {
	r, err := a.rules()
	if err != nil {
		return PlanTestResult{}, err
	}
	what := ""
	if in.By != "" {
		what = "asked for by " + in.By
	}
	all, err := r.PlanTest(protocol.NotifyEvent{Key: in.Key, Kind: protocol.EventTest, At: in.Now, What: what}, in.To, in.Now)
	if err != nil {
		return PlanTestResult{Problem: err.Error()}, nil
	}
	if len(all) > maxReturned {
		return PlanTestResult{Problem: "the test would reach too many: name a channel or a person"}, nil
	}
	return PlanTestResult{Notices: all}, nil
}
