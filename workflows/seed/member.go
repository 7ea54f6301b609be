package seed

import (
	"errors"
	"slices"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

// A pool sends a seed an acquire with the pool's name. The seed grants it at once or not at
// all, and answers with its next news.

// MemberNews is a seed's report to a pool.
type MemberNews struct {
	Seed   string    `json:"seed"`
	Gone   bool      `json:"gone,omitempty"` // the seed has left the pool
	Free   bool      `json:"free"`
	Health string    `json:"health"`
	State  string    `json:"state"`
	UsedAt time.Time `json:"used_at"`
	// Use is nearly_used_up, used_up or empty, until UseUntil. Percent is of the window that
	// is used most.
	Use      string         `json:"use,omitempty"`
	UseUntil time.Time      `json:"use_until,omitzero"`
	Percent  int            `json:"percent,omitempty"`
	Answers  []MemberAnswer `json:"answers,omitempty"`
	Left     []string       `json:"left,omitempty"` // holders that gave the seed back; read after Answers
}

// MemberAnswer answers a request of a pool.
type MemberAnswer struct {
	Holder  string `json:"holder"`
	Granted bool   `json:"granted"`
}

type seedInPool struct {
	Name    string         `json:"name"`
	Told    *MemberNews    `json:"told,omitempty"`
	Leaves  bool           `json:"leaves,omitempty"`
	Answers []MemberAnswer `json:"answers,omitempty"`
	Left    []string       `json:"left,omitempty"`
}

// inPool adds an unknown pool as one that the seed leaves, so that the pool learns that the
// seed is no member.
func (s *seedCore) inPool(name string) *seedInPool {
	for i := range s.st.Pools {
		if s.st.Pools[i].Name == name {
			return &s.st.Pools[i]
		}
	}
	s.st.Pools = append(s.st.Pools, seedInPool{Name: name, Leaves: true})
	return &s.st.Pools[len(s.st.Pools)-1]
}

func (s *seedCore) pools() []string {
	out := []string{}
	for _, p := range s.st.Pools {
		if !p.Leaves {
			out = append(out, p.Name)
		}
	}
	slices.Sort(out)
	return out
}

type membersPart struct {
	*seedCore
}

func (s *membersPart) setPools(names []string) {
	for i := range s.st.Pools {
		s.st.Pools[i].Leaves = true
	}
	for _, name := range names {
		s.inPool(name).Leaves = false
	}
	s.work = true
}

const maxPools = 20

func checkPools(names []string) error {
	for _, name := range names {
		if !protocol.NamePattern.MatchString(name) {
			return kit.Refuse(protocol.RefusedBadInput, "pool name %q: use a-z, 0-9, dot, dash, underscore; at most 63, the first a letter or a digit", kit.Cut(name, kit.MaxWord))
		}
	}
	if len(names) > maxPools {
		return kit.Refuse(protocol.RefusedBadInput, "a seed can be in %d pools, not in %d", maxPools, len(names))
	}
	return nil
}

func (s *membersPart) answerPool(t lease.Ticket, granted bool) {
	p := s.inPool(t.Pool)
	p.Answers = append(p.Answers, MemberAnswer{Holder: t.Holder, Granted: granted})
}

// surveyed answers a pool's question: tellPools sends everything again.
func (s *membersPart) surveyed(pool string) {
	s.inPool(pool).Told = nil
	s.work = true
}

func (s *membersPart) tellPools() {
	why, never := s.denies()
	v := s.view()
	now := MemberNews{Seed: s.name, Free: why == "" && never == nil, Health: v.Health, State: v.State, UsedAt: s.st.UsedAt}
	if u := s.st.Account.Use(workflow.Now(s.ctx)); u.Known || u.State != "" {
		now.Use, now.UseUntil, now.Percent = u.State, u.Until, u.Percent
	}
	var letters []MemberNews
	var to []string
	for i := range s.st.Pools {
		p := &s.st.Pools[i]
		n := now
		n.Gone = p.Leaves || s.st.Deleted
		if p.Told != nil && !n.Gone && len(p.Answers)+len(p.Left) == 0 && p.Told.same(n) {
			continue
		}
		kept := n
		p.Told = &kept
		n.Answers, n.Left = p.Answers, p.Left
		p.Answers, p.Left = nil, nil
		letters, to = append(letters, n), append(to, p.Name)
	}
	s.st.Pools = slices.DeleteFunc(s.st.Pools, func(p seedInPool) bool { return p.Leaves || s.st.Deleted })
	for i, n := range letters {
		if err := s.toPool(to[i], n); err != nil {
			workflow.GetLogger(s.ctx).Warn("pool not told", "pool", to[i], "error", err)
		}
	}
}

func (n MemberNews) same(o MemberNews) bool {
	return n.Free == o.Free && n.Health == o.Health && n.State == o.State && n.UsedAt.Equal(o.UsedAt) && n.Use == o.Use && n.UseUntil.Equal(o.UseUntil)
}

// toPool starts the pool's workflow if it does not run.
func (s *membersPart) toPool(name string, n MemberNews) error {
	id := protocol.SeedPoolID(name)
	err := workflow.SignalExternalWorkflow(s.ctx, id, "", lease.SignalMember, n).Get(s.ctx, nil)
	var unknown *temporal.UnknownExternalWorkflowExecutionError
	if !errors.As(err, &unknown) || n.Gone {
		return err
	}
	ctx := workflow.WithChildOptions(s.ctx, workflow.ChildWorkflowOptions{
		WorkflowID: id, ParentClosePolicy: enums.PARENT_CLOSE_POLICY_ABANDON, StaticSummary: "seed pool " + name,
	})
	err = workflow.ExecuteChildWorkflow(ctx, protocol.TypeSeedPool, PoolInput{Name: name}).GetChildWorkflowExecution().Get(ctx, nil)
	if err != nil && !temporal.IsWorkflowExecutionAlreadyStartedError(err) { // another seed was quicker
		return err
	}
	return workflow.SignalExternalWorkflow(s.ctx, id, "", lease.SignalMember, n).Get(s.ctx, nil)
}
