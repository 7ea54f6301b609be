package workflows

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
)

// How a host is, beside what people say of it.
const (
	HealthOK          = "ok"
	HealthSuspect     = "suspect"     // it failed just now, and is probed
	HealthQuarantined = "quarantined" // probes fail, too: it gets no session until one succeeds
)

// HostHealth is of a host that failed: what is shown of it, and carried.
type HostHealth struct {
	State  string    `json:"state"`            // suspect, quarantined; a host that is well has none
	Kind   string    `json:"kind,omitempty"`   // of the newest failure
	Reason string    `json:"reason,omitempty"` // in words
	Hint   string    `json:"hint,omitempty"`
	Since  time.Time `json:"since,omitzero"` // the first failure of these
	// Tries are the probes since then that failed, and those of a time shortly
	// before when it failed as well; NextAt is when it is probed next.
	Tries  int       `json:"tries,omitempty"`
	NextAt time.Time `json:"next_at,omitzero"`
}

// What becomes of the sessions of a host that is drained, once their turns have
// ended.
const (
	DrainPark = "park" // they park, and come up elsewhere when somebody wants them
	DrainMove = "move" // they go on elsewhere at once
)

// Draining says that a host is being emptied, and how.
type Draining struct {
	How   string    `json:"how"` // park, move
	By    string    `json:"by,omitempty"`
	Since time.Time `json:"since,omitzero"`
}

// A host fails when a session cannot be prepared there, when a check or a
// provision cannot reach it, or when its watch cannot: from then on it gets no
// session, and is probed at growing intervals. A probe that fails, too, puts it
// into quarantine, with the reason; one that succeeds ends all of it, whatever
// it was. So does a check that finds all in order. That somebody gets in, as its
// watch does, ends no more than the suspicion that nobody can. Those who
// wait for it wait on; one that was never reached since it was put into the
// inventory is not down but mistaken, and who can have no other is told at once.
var probePauses = []time.Duration{time.Second, 5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute}

const (
	// failsAgain is how soon a host has to fail again for the pauses to go on
	// growing where they stopped: it may look well and be of no use.
	failsAgain = 10 * time.Minute
	// maxProbes is how many hosts one activity looks at: what it finds has to
	// fit into its result.
	maxProbes = 200
)

// signalHostAway tells a pool that a host which is watched cannot be reached.
const signalHostAway = "host_away"

// eligible says why a host takes no new session now; nil where it does. The
// kind is busy where somebody may wait for it.
func (p *pool) eligible(h *poolHost) *Failure {
	busy := func(format string, args ...any) *Failure {
		return &Failure{Kind: "busy", Message: excerpt(fmt.Sprintf(format, args...), maxFailure)}
	}
	name := h.Spec.Name
	switch {
	case h.Draining != nil:
		return busy("host %s is being drained", name)
	case h.Cordon:
		return busy("host %s is cordoned", name)
	case h.Health == nil:
		return nil
	case !h.Reached:
		return &Failure{Kind: h.Health.Kind, Message: excerpt(fmt.Sprintf("host %s was never reached: %s", name, h.Health.Reason), maxFailure),
			Hint: orElse(h.Health.Hint, "see `ctl host check "+name+"`")}
	}
	return busy("host %s is %s since %s: %s", name, h.Health.State, clock(h.Health.Since), h.Health.Reason)
}

// failed takes it that a host cannot be used. What is known already changes
// nothing but the reason.
func (p *pool) failed(h *poolHost, f *Failure) {
	if h.Health == nil {
		now := workflow.Now(p.ctx)
		h.Health = &HostHealth{State: HealthSuspect, Since: now}
		if now.Sub(h.WellAt) < failsAgain {
			h.Health.Tries = h.Flaps
		}
		h.Health.NextAt = now.Add(h.Health.pause())
		workflow.GetLogger(p.ctx).Warn("host fails", "host", h.Spec.Name, "kind", f.Kind, "reason", f.Message)
	}
	h.Health.Kind, h.Health.Reason, h.Health.Hint = f.Kind, excerpt(f.Message, maxReason), excerpt(f.Hint, maxReason)
	p.work = true
}

func (h *HostHealth) pause() time.Duration { return probePauses[min(h.Tries, len(probePauses)-1)] }

// away says that nobody got in: whoever does shows that it is over.
func (h *HostHealth) away() bool {
	return h.Kind == activities.ErrTypeUnreachable || h.Kind == activities.ErrTypeAuth || h.Kind == activities.ErrTypeHostKey
}

// lacksCodex says that it is over once codex was put there.
func (h *HostHealth) lacksCodex() bool {
	return h.Kind == activities.ErrTypeCodexMissing || h.Kind == activities.ErrTypeCodexVersion
}

// gotIn takes it that somebody reached a host. Once a probe has failed, only one
// that succeeds ends that: it comes at once then, unless it failed for something
// else.
func (p *pool) gotIn(h *poolHost) {
	h.Reached = true
	switch {
	case h.Health == nil || !h.Health.away():
	case h.Health.State == HealthSuspect:
		p.well(h)
	default:
		h.Health.NextAt = workflow.Now(p.ctx)
		p.work = true
	}
}

// well takes it that a host can be used.
func (p *pool) well(h *poolHost) {
	h.Reached = true
	if h.Health == nil {
		return
	}
	workflow.GetLogger(p.ctx).Info("host is well again", "host", h.Spec.Name, "since", h.Health.Since)
	h.Flaps, h.WellAt, h.Health = h.Health.Tries+1, workflow.Now(p.ctx), nil
	p.work = true
}

// probe looks at all hosts that are due, with one activity for all that are not
// being looked at, and has the pool woken for the next ones.
func (p *pool) probe() {
	now := workflow.Now(p.ctx)
	var due []activities.HostSpec
	var next time.Time
	for i := range p.st.Hosts {
		h := &p.st.Hosts[i]
		switch at := h.probeAt(); {
		case p.probing[h.Spec.Name] || at.IsZero():
		case !at.After(now) && len(due) < maxProbes:
			due = append(due, h.Spec)
			p.probing[h.Spec.Name] = true
		case next.IsZero() || at.Before(next):
			next = at
		}
	}
	if next.IsZero() {
		p.probes.off()
	} else {
		p.probes.set(next)
	}
	if len(due) == 0 {
		return
	}
	workflow.Go(p.ctx, func(ctx workflow.Context) {
		out, err := do(probing(ctx, due), hosts.ProbeHosts, activities.ProbeHostsInput{Hosts: due})
		for i, spec := range due {
			delete(p.probing, spec.Name)
			if h := p.host(spec.Name); h == nil || changed(h.Spec, spec) {
				continue // another machine by now
			} else if err != nil { // of the host nothing is known
				h.notProbed(workflow.Now(ctx))
			} else {
				p.probed(h, out.Hosts[i])
			}
		}
		if err != nil {
			workflow.GetLogger(ctx).Warn("hosts not probed", "error", err)
		}
		p.work = true
	})
}

// probeAt is when a host is to be looked at; zero for never.
func (h *poolHost) probeAt() time.Time {
	if h.Health != nil {
		return h.Health.NextAt
	}
	return h.NewAt
}

// notProbed puts a probe off of which nobody knows how it would have ended.
func (h *poolHost) notProbed(now time.Time) {
	if h.Health != nil {
		h.Health.NextAt = now.Add(max(h.Health.pause(), time.Minute))
	} else if !h.NewAt.IsZero() {
		h.NewAt = now.Add(time.Minute)
	}
}

// probed takes what a probe found. Several hosts that failed at the same time
// are probed at the same time from then on, for which pauses are shortened a
// little.
func (p *pool) probed(h *poolHost, found activities.HostProbed) {
	h.NewAt = time.Time{}
	if found.Facts != nil {
		h.Reached = true
		p.foundOut(h, found.Facts)
	}
	if found.Problem == nil {
		p.well(h)
		p.tryCleaning(h.Spec.Name)
		return
	}
	p.failed(h, failureOfProblem(found.Problem))
	h.Health.State = HealthQuarantined
	h.Health.Tries++
	pause := h.Health.pause()
	h.Health.NextAt = workflow.Now(p.ctx).Add(pause).Truncate(pause / 5)
}

// foundOut keeps what a probe found out: what it did not look for stays.
func (p *pool) foundOut(h *poolHost, facts map[string]string) {
	found := foundLabels(facts)
	for _, k := range []string{"sandbox", "codex"} {
		if was, known := h.Found[k]; known && found[k] == "" {
			found[k] = was
		}
	}
	h.Found = found
	p.work = true
}

// probing is for a look at many hosts. That a worker dies costs ten seconds, and
// that none is there nothing but the time.
func probing(ctx workflow.Context, due []activities.HostSpec) workflow.Context {
	what := "probe " + due[0].Name
	if n := len(due); n > 1 {
		what = fmt.Sprintf("probe %d hosts", n)
	}
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 10 * time.Minute,
		HeartbeatTimeout:    beat,
		Summary:             excerpt(what, 100),
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second, MaximumAttempts: 5},
	})
}

// drainAway takes the words of watches that cannot reach their hosts.
func (p *pool) drainAway() {
	for _, a := range unread[activities.HostAway](p.awy) {
		if h := p.host(a.Host); h != nil && h.Health == nil {
			p.failed(h, failureOfProblem(&a.Problem))
		}
	}
}

// heldOn is the host of a lease.
func (p *pool) heldOn(l *poolLease) *poolHost {
	if l == nil {
		return nil
	}
	return p.host(l.Host)
}

// labelsOf are a host's labels: those that its probe found, and over them those
// that people gave it. They are the caller's to change.
func labelsOf(h *poolHost) map[string]string {
	all := make(map[string]string, len(h.Found)+len(h.Labels))
	for _, from := range []map[string]string{h.Found, h.Labels} {
		for _, k := range workflow.DeterministicKeys(from) {
			all[k] = from[k]
		}
	}
	return all
}

// foundLabels makes labels of what a probe found. Memory is rounded up, since
// what a kernel keeps for itself is missing in what it tells: a machine of 32
// GiB says 31.2. The space on the disk is rounded down.
func foundLabels(facts map[string]string) map[string]string {
	found := map[string]string{}
	put := func(k, v string) {
		if v != "" && v != "unknown" {
			found[k] = excerpt(v, maxWord)
		}
	}
	for _, k := range []string{"arch", "cpus", "sandbox", "codex"} {
		put(k, facts[k])
	}
	put("os", strings.ToLower(facts["os"]))
	libc, _, _ := strings.Cut(facts["libc"], " ") // it says its version, too
	put("libc", libc)
	put("mem", gibibytes(facts["memory_mb"], 1023))
	put("disk", gibibytes(facts["disk_free_mb"], 0))
	return found
}

func gibibytes(mb string, more int64) string {
	n, err := strconv.ParseInt(mb, 10, 64)
	if err != nil || n <= 0 {
		return ""
	}
	return strconv.FormatInt((n+more)>>10, 10)
}
