package seed

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

// PoolInput starts a SeedPool workflow.
type PoolInput struct {
	Auth  *protocol.Auth `json:"auth,omitempty"` // of who starts it, as in all signed starts
	Name  string         `json:"name"`
	Carry *PoolState     `json:"carry,omitempty"`

	newer kit.Newer // a field that this program does not know
}

// UnmarshalJSON notes a field that this program does not know.
func (in *PoolInput) UnmarshalJSON(raw []byte) (err error) {
	type plain PoolInput
	in.newer, err = kit.Known(raw, (*plain)(in))
	return err
}

// Required implements newer.Input.
func (in PoolInput) Required() []string { return nil }

// Unknown implements newer.Input.
func (in PoolInput) Unknown() []string { return in.newer.Fields() }

// Given returns the JSON of an input that has a field which this program does not know, and
// otherwise nil. The signature of a start is of this JSON.
func (in PoolInput) Given() []byte { return in.newer.Given() }

// PoolState is what a SeedPool carries across continue-as-new.
type PoolState struct {
	Members []Member `json:"members"`
	Queue   []Ticket `json:"queue"`
	// Given maps holders to the seeds that they got here, as far as is known.
	Given   map[string]string `json:"given,omitempty"`
	ReapAt  time.Time         `json:"reap_at"`
	Heard   bool              `json:"heard,omitempty"` // some seed or session has sent a message
	Returns []seedReturn      `json:"returns,omitempty"`
}

// seedReturn tells a seed that a session did not take a lease.
type seedReturn struct {
	Seed    string        `json:"seed"`
	Release lease.Release `json:"release"`
}

// Member is a seed of the pool with its newest news.
type Member struct {
	MemberNews
	Asked bool `json:"asked,omitempty"` // its answer is due
}

// Ticket is a place in line. Asked is the seed that was asked for it.
type Ticket struct {
	lease.Ticket
	Asked string `json:"asked,omitempty"`
}

// RunPool returns the workflow SeedPool.
func RunPool(every kit.Intervals) func(workflow.Context, PoolInput) error {
	return func(ctx workflow.Context, in PoolInput) error { return runSeedPool(ctx, every, in) }
}

// runSeedPool keeps a line and holds no lease, so a session that dies in line leaves
// nothing behind. It ends when its last member has left.
func runSeedPool(ctx workflow.Context, every kit.Intervals, in PoolInput) error {
	p := &seedPool{ctx: ctx, name: in.Name, st: in.Carry, alarm: kit.NewAlarm(ctx, "look after the line"),
		reset: kit.NewWake(ctx, "a used-up seed is there again"), roll: kit.NewRollover(ctx)}
	if p.st == nil {
		p.st = &PoolState{}
	}
	if p.st.Given == nil {
		p.st.Given = map[string]string{}
	}
	p.acq = workflow.GetSignalChannel(ctx, lease.SignalAcquire)
	p.rel = workflow.GetSignalChannel(ctx, lease.SignalRelease)
	p.mem = workflow.GetSignalChannel(ctx, lease.SignalMember)
	p.lks = workflow.GetSignalChannel(ctx, lease.SignalLook)
	if err := workflow.SetQueryHandler(ctx, protocol.QuerySeedPool, func() (protocol.SeedPoolView, error) { return p.view(), nil }); err != nil {
		return err
	}
	for {
		p.serve()
		if !p.work && p.st.Heard && len(p.st.Members)+len(p.st.Queue) == 0 {
			return nil
		}
		p.awaitReset()
		if len(p.st.Queue) > 0 {
			if p.st.ReapAt.IsZero() {
				p.st.ReapAt = workflow.Now(ctx).Add(every.Reap)
			}
			p.alarm.Set(p.st.ReapAt)
		}
		err := workflow.Await(ctx, func() bool {
			p.drain()
			return p.work || p.alarm.Due() || p.reset.Due() || p.roll.Due() || p.st.Heard && len(p.st.Members)+len(p.st.Queue) == 0
		})
		if err != nil {
			return err
		}
		if p.alarm.Off() {
			p.st.ReapAt = time.Time{}
			p.reap()
		}
		if p.roll.Due() { // even with work to do: requests may never stop
			return p.rollOver()
		}
	}
}

func (p *seedPool) rollOver() error {
	for p.drain(); len(p.no)+len(p.looks) > 0; p.drain() {
		p.answerLooks()
		no := p.no // refusals are not carried to the next run
		p.no = nil
		lease.Post(p.ctx, no)
	}
	return workflow.NewContinueAsNewError(p.ctx, protocol.TypeSeedPool, PoolInput{Name: p.name, Carry: p.st})
}

type seedPool struct {
	ctx  workflow.Context
	name string
	st   *PoolState
	acq  workflow.ReceiveChannel
	rel  workflow.ReceiveChannel
	mem  workflow.ReceiveChannel
	lks  workflow.ReceiveChannel
	work bool

	alarm *kit.Alarm
	reset *kit.Wake // only while sessions wait and a seed is used up
	roll  *kit.Rollover
	sends []poolSend
	no    []lease.Letter // refusals, not sent yet
	looks []lease.Acquire
}

type poolSend struct {
	seed, name string
	arg        any
}

func (p *seedPool) member(name string) *Member {
	for i := range p.st.Members {
		if p.st.Members[i].Seed == name {
			return &p.st.Members[i]
		}
	}
	return nil
}

func (p *seedPool) drain() {
	for _, n := range kit.Unread[MemberNews](p.mem) {
		p.heard(n)
	}
	rels, acqs := kit.Unread[lease.Release](p.rel), kit.Unread[lease.Acquire](p.acq)
	for _, r := range rels {
		acqs = without(acqs, r)
		p.release(r)
	}
	for _, a := range acqs {
		p.enqueue(a)
	}
	for _, a := range kit.Unread[lease.Acquire](p.lks) {
		if protocol.NamePattern.MatchString(a.Holder) && !a.TooLarge() {
			p.looks = append(p.looks, a)
			p.st.Heard, p.work = true, true
		}
	}
}

func (p *seedPool) heard(n MemberNews) {
	p.st.Heard, p.work = true, true
	for _, a := range n.Answers {
		p.answered(n.Seed, a)
	}
	for _, h := range n.Left {
		if p.st.Given[h] == n.Seed {
			delete(p.st.Given, h)
		}
	}
	asked := slices.ContainsFunc(p.st.Queue, func(t Ticket) bool { return t.Asked == n.Seed })
	n.Answers, n.Left = nil, nil
	switch m := p.member(n.Seed); {
	case n.Gone:
		p.forget(n.Seed)
	case m != nil:
		m.MemberNews, m.Asked = n, asked
	default:
		p.st.Members = append(p.st.Members, Member{MemberNews: n, Asked: asked})
	}
}

func (p *seedPool) answered(seed string, a MemberAnswer) {
	i := slices.IndexFunc(p.st.Queue, func(t Ticket) bool { return t.Holder == a.Holder && t.Asked == seed })
	if a.Granted {
		p.st.Given[a.Holder] = seed
	} else if p.st.Given[a.Holder] == seed {
		delete(p.st.Given, a.Holder)
	}
	switch {
	case i >= 0 && a.Granted:
		p.st.Queue = slices.Delete(p.st.Queue, i, i+1)
	case i >= 0:
		p.st.Queue[i].Asked = ""
	}
}

// forget removes a seed. Tickets that waited for its answer wait in line again.
func (p *seedPool) forget(seed string) {
	p.st.Members = slices.DeleteFunc(p.st.Members, func(m Member) bool { return m.Seed == seed })
	for i := range p.st.Queue {
		if p.st.Queue[i].Asked == seed {
			p.st.Queue[i].Asked = ""
		}
	}
	p.work = true
}

// enqueue lets a session that asks again keep its place, and has it told its place again.
func (p *seedPool) enqueue(a lease.Acquire) {
	if !protocol.NamePattern.MatchString(a.Holder) {
		return
	}
	p.st.Heard, p.work = true, true
	if a.TooLarge() {
		p.no = append(p.no, a.Decline(protocol.SeedPoolID(p.name)))
		return
	}
	for i := range p.st.Queue {
		if t := &p.st.Queue[i]; t.Holder == a.Holder {
			t.Acquire, t.Told = a, ""
			return
		}
	}
	p.st.Queue = append(p.st.Queue, Ticket{Ticket: lease.Ticket{Acquire: a}})
}

// release takes a session out of line, and tells the seed that may have granted it a lease
// meanwhile.
func (p *seedPool) release(r lease.Release) {
	p.work = true
	seed := p.st.Given[r.Holder]
	p.st.Queue = slices.DeleteFunc(p.st.Queue, func(t Ticket) bool {
		if t.Holder != r.Holder || t.Generation > r.Generation {
			return false
		}
		seed = cmp.Or(t.Asked, seed)
		return true
	})
	if seed != "" {
		if m := p.member(seed); m != nil {
			m.Asked = false // the seed may have nothing to answer now
		}
		delete(p.st.Given, r.Holder)
		r.Epoch = 0
		p.st.Returns = append(p.st.Returns, seedReturn{seed, r})
	}
}

// serve decides everything before it tells anybody.
func (p *seedPool) serve() {
	p.work = false
	p.answerLooks()
	letters := p.no
	p.no = nil
	say := func(to lease.Who, g lease.Granted) {
		g.From, g.Run = protocol.SeedPoolID(p.name), to.Run
		letters = append(letters, lease.Letter{To: to.Holder, Text: g})
	}
	never := p.never()
	var left []Ticket
	full := 0 // tickets refused for a full line
	for _, t := range p.st.Queue {
		again := p.member(p.st.Given[t.Holder])
		m := p.next("")
		switch {
		case t.Asked != "":
			left = append(left, t)
		case again != nil && t.Told == "": // it may not have been told its seed
			t.Asked = again.Seed
			left = append(left, t)
			p.ask(again, t, true)
		case m != nil:
			t.Asked = m.Seed
			left = append(left, t)
			p.ask(m, t, false)
		case never != nil:
			say(t.Who(), lease.Granted{Refused: never})
		case len(left) >= lease.MaxLine:
			say(t.Who(), lease.Granted{Refused: lease.LineFull(fmt.Sprintf("%s, and %d sessions wait already", p.busy(), len(left)), "more seeds in the pool shorten the line"), RetryAfter: lease.RetryAfter(full)})
			full++
		default:
			why := p.busy()
			if len(left) >= lease.Exactly {
				why = "seed pool " + p.name
			}
			if left = append(left, t); t.Told != why {
				left[len(left)-1].Told = why
				say(t.Who(), lease.Granted{Queued: why + lease.Before(len(left)-1)})
			}
		}
	}
	p.st.Queue = left
	var sends []poolSend
	for _, r := range p.st.Returns {
		sends = append(sends, poolSend{r.Seed, lease.SignalRelease, r.Release})
	}
	sends = append(sends, p.sends...)
	p.st.Returns, p.sends = nil, nil
	for _, s := range sends {
		p.send(s)
	}
	for _, holder := range lease.Post(p.ctx, letters) {
		p.gone(lease.Who{Holder: holder})
	}
}

func (p *seedPool) gone(h lease.Who) {
	p.st.Queue = slices.DeleteFunc(p.st.Queue, func(t Ticket) bool { return h.Is(t.Who()) && t.Asked == "" })
	p.work = true
}

// ask asks a seed to grant a lease at once or not at all; with again, only if it did so
// before.
func (p *seedPool) ask(m *Member, t Ticket, again bool) {
	a := t.Acquire
	a.Pool, a.Again = p.name, again
	m.Asked = true
	p.sends = append(p.sends, poolSend{m.Seed, lease.SignalAcquire, a})
}

func (p *seedPool) send(s poolSend) {
	err := workflow.SignalExternalWorkflow(p.ctx, protocol.SeedID(s.seed), "", s.name, s.arg).Get(p.ctx, nil)
	var unknown *temporal.UnknownExternalWorkflowExecutionError
	if errors.As(err, &unknown) { // deleted, or ended by force
		p.forget(s.seed)
	} else if err != nil {
		workflow.GetLogger(p.ctx).Warn("seed not asked", "seed", s.seed, "error", err)
	}
}

// never returns why nobody will ever get a seed, or nil.
func (p *seedPool) never() *protocol.Failure {
	for _, m := range p.st.Members {
		if m.Health != protocol.Dead {
			return nil
		}
	}
	if len(p.st.Members) == 0 {
		return &protocol.Failure{Kind: "seed_pool_empty", Message: fmt.Sprintf("seed pool %s has no seed", p.name),
			Hint: fmt.Sprintf("`ctl seed set NAME --pool %s` puts one in", p.name)}
	}
	return &protocol.Failure{Kind: "seed_dead", Message: fmt.Sprintf("every seed of pool %s is dead", p.name),
		Hint: "`ctl seed list` says which; log in anew and import them"}
}

func (p *seedPool) busy() string {
	n, now, back := map[string]int{}, workflow.Now(p.ctx), time.Time{}
	for _, m := range p.st.Members {
		switch {
		case m.Health == protocol.Dead || m.Health == protocol.Suspect:
			n[m.Health]++
		case m.State == protocol.SeedRecovering:
			n[protocol.SeedRecovering]++
		case m.use(now) != "":
			n[useWords[m.use(now)]]++
			if back.IsZero() || m.UseUntil.Before(back) {
				back = m.UseUntil
			}
		case m.Free:
			n["about to be given"]++
		default:
			n["in use"]++
		}
	}
	var parts []string
	for _, k := range workflow.DeterministicKeys(n) {
		parts = append(parts, fmt.Sprintf("%d %s", n[k], k))
	}
	if !back.IsZero() {
		parts = append(parts, "the first limit resets at "+kit.Clock(back))
	}
	return fmt.Sprintf("seed pool %s, of which no seed is free (%s)", p.name, strings.Join(parts, ", "))
}

// reap checks whether the sessions in line still run, and asks the seeds for their state.
func (p *seedPool) reap() {
	var all []lease.Who
	for _, t := range p.st.Queue[:min(len(p.st.Queue), 200)] {
		all = append(all, t.Who())
	}
	ended, err := lease.FindEnded(p.ctx, p.roll, all)
	if err != nil {
		workflow.GetLogger(p.ctx).Warn("line not looked at", "error", err)
	}
	for _, h := range ended {
		p.gone(h)
	}
	for _, m := range slices.Clone(p.st.Members) {
		p.send(poolSend{m.Seed, lease.SignalAcquire, lease.Acquire{Pool: p.name}})
	}
	// A seed that was ended by force does not know what it was asked.
	for _, t := range slices.Clone(p.st.Queue) {
		if t.Asked != "" {
			a := t.Acquire
			a.Pool, a.Again = p.name, true
			p.send(poolSend{t.Asked, lease.SignalAcquire, a})
		}
	}
	p.work = true
}

func (p *seedPool) view() protocol.SeedPoolView {
	v := protocol.SeedPoolView{Name: p.name, Seeds: []protocol.SeedPoolMember{}, Queue: len(p.st.Queue)}
	for _, m := range p.st.Members {
		v.Seeds = append(v.Seeds, protocol.SeedPoolMember{Name: m.Seed, Free: m.Free, State: m.State, Health: m.Health, UsedAt: timeOrNil(m.UsedAt)}.WithUse(m.use(workflow.Now(p.ctx)), m.UseUntil))
	}
	slices.SortFunc(v.Seeds, func(a, b protocol.SeedPoolMember) int { return strings.Compare(a.Name, b.Name) })
	return v
}
