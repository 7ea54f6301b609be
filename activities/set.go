package activities

import (
	"context"

	"go.temporal.io/sdk/worker"

	"fairlead.dev/fairlead/activities/audits"
	"fairlead.dev/fairlead/activities/batches"
	"fairlead.dev/fairlead/activities/gateways"
	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/logins"
	"fairlead.dev/fairlead/activities/notices"
	"fairlead.dev/fairlead/activities/overseer"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/activities/snaps"
	"fairlead.dev/fairlead/activities/workspaces"
)

// A Set has the activities of one worker.
type Set struct {
	Host      *hosts.Activities
	Place     *places.Activities
	Pump      *pumps.Activities
	Workspace *workspaces.Activities
	Login     *logins.Activities
	Snapshot  *snaps.Activities
	Batch     *batches.Activities
	Audit     *audits.Activities
	Notice    *notices.Activities
	Engine    *overseer.Engine

	site *site.Site
}

// New makes the activities of a worker.
func New(d site.Deps) *Set {
	s := site.NewSite(d)
	return &Set{
		Host: hosts.New(s), Place: places.New(s), Pump: pumps.New(s), Workspace: workspaces.New(s), Login: logins.New(s),
		Snapshot: snaps.New(s), Batch: batches.New(s), Audit: audits.New(s), Notice: notices.New(s), Engine: &overseer.Engine{Client: d.Temporal}, site: s,
	}
}

// Register registers the activities with a worker.
func (s *Set) Register(r worker.ActivityRegistry) {
	for _, family := range []any{s.Host, s.Place, s.Pump, s.Workspace, s.Login, s.Snapshot, s.Batch, s.Audit, s.Notice, s.Engine} {
		r.RegisterActivity(family)
	}
}

// Workfolders returns Workfolders on the hosts of the set's activities.
func (s *Set) Workfolders() *workspaces.Workfolders { return workspaces.NewWorkfolders(s.site) }

// CloseGates closes the model gateways that pumps have left open, after the last pump.
func (s *Set) CloseGates(ctx context.Context) { gateways.CloseLeft(ctx, s.site) }
