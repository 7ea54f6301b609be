package activities

import "go.temporal.io/sdk/worker"

// A Set has the activities of one worker.
type Set struct {
	Host      *HostActs
	Place     *PlaceActs
	Pump      *PumpActs
	Workspace *WorkActs
	Login     *LoginActs
	Snapshot  *SnapActs
	Batch     *BatchActs
	Engine    *Engine

	site *site
}

// New makes the activities of a worker.
func New(d Deps) *Set {
	s := newSite(d)
	return &Set{
		Host: NewHostActs(s), Place: NewPlaceActs(s), Pump: NewPumpActs(s), Workspace: NewWorkActs(s), Login: NewLoginActs(s),
		Snapshot: NewSnapActs(s), Batch: NewBatchActs(s), Engine: &Engine{Client: d.Temporal}, site: s,
	}
}

// Register makes the activities known to a worker.
func (s *Set) Register(r worker.ActivityRegistry) {
	for _, family := range []any{s.Host, s.Place, s.Pump, s.Workspace, s.Login, s.Snapshot, s.Batch, s.Engine} {
		r.RegisterActivity(family)
	}
}

// Workfolders returns the Workfolders of the set. It uses the same hosts as the set's
// activities.
func (s *Set) Workfolders() *Workfolders { return newWorkfolders(s.site) }
