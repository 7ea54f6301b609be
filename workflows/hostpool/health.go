package hostpool

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// probePauses are the pauses between the probes of a host that fails; the last one repeats.
// A host fails when a session cannot be prepared there, or when a check, a provision or its
// watch cannot reach it. From then on it gets no session. A probe that fails as well
// quarantines it. A host that sent more than it may is quarantined at once. A successful probe or check ends any failure; a watch that reaches the
// host ends only a suspicion that it cannot be reached. Sessions wait for the host, unless
// they named one that was never reached: its settings may be wrong.
var probePauses = []time.Duration{time.Second, 5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute}

// floodPause is the pause between the probes of a host that sent more than it may. It is
// long, because the host may pass its probes and still cost the next activity.
const floodPause = time.Hour

const (
	// If a host fails again within failsAgain after its recovery, its pauses go on growing
	// where they stopped: it may pass its probes and still be of no use.
	failsAgain = 10 * time.Minute
	// maxProbes bounds the result of one activity.
	maxProbes = 200
)

type healthPart struct {
	*poolCore
	leftovers *leftoversPart

	awy     workflow.ReceiveChannel
	probing map[string]bool
	probes  *kit.Wake
}

// eligible returns why a host takes no new session now, or nil. The kind is busy if it
// makes sense to wait.
func (p *healthPart) eligible(h *Host) *protocol.Failure {
	busy := func(format string, args ...any) *protocol.Failure {
		return &protocol.Failure{Kind: "busy", Message: kit.Cut(fmt.Sprintf(format, args...), kit.MaxFailure)}
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
		return &protocol.Failure{Kind: h.Health.Kind, Message: kit.Cut(fmt.Sprintf("host %s was never reached: %s", name, h.Health.Reason), kit.MaxFailure),
			Hint: cmp.Or(h.Health.Hint, "see `ctl host check "+name+"`")}
	}
	return busy("host %s is %s since %s: %s", name, h.Health.State, kit.Clock(h.Health.Since), h.Health.Reason)
}

func (p *healthPart) failed(h *Host, f *protocol.Failure) {
	if h.Health == nil {
		now := workflow.Now(p.ctx)
		h.Health = &protocol.HostHealth{State: protocol.HealthSuspect, Since: now}
		if now.Sub(h.WellAt) < failsAgain {
			h.Health.Tries = h.Flaps
		}
		h.Health.NextAt = now.Add(probePause(h.Health))
		workflow.GetLogger(p.ctx).Warn("host fails", "host", h.Spec.Name, "kind", f.Kind, "reason", f.Message)
	}
	if p.work = true; h.Health.Kind == protocol.ErrTypeHostFlood && f.Kind != protocol.ErrTypeHostFlood {
		return // it stays in quarantine
	}
	if f.Kind == protocol.ErrTypeHostFlood {
		h.Health.State, h.Health.Kind = protocol.HealthQuarantined, f.Kind
		h.Health.NextAt = workflow.Now(p.ctx).Add(probePause(h.Health))
	}
	h.Health.Kind, h.Health.Reason, h.Health.Hint = f.Kind, kit.Cut(f.Message, kit.MaxReason), kit.Cut(f.Hint, kit.MaxReason)
}

func probePause(h *protocol.HostHealth) time.Duration {
	if h.Kind == protocol.ErrTypeHostFlood {
		return floodPause
	}
	return probePauses[min(h.Tries, len(probePauses)-1)]
}

func hostIsAway(h *protocol.HostHealth) bool {
	return h.Kind == protocol.ErrTypeUnreachable || h.Kind == protocol.ErrTypeAuth || h.Kind == protocol.ErrTypeHostKey
}

func lacksCodex(h *protocol.HostHealth) bool {
	return h.Kind == protocol.ErrTypeCodexMissing || h.Kind == protocol.ErrTypeCodexVersion || h.Kind == protocol.ErrTypeCodexChanged
}

// gotIn records that somebody reached a host, which ends a suspicion that it cannot be
// reached. A quarantine for that reason stays until a probe succeeds, which is due at once.
// Other failures stay.
func (p *healthPart) gotIn(h *Host) {
	h.Reached = true
	switch {
	case h.Health == nil || !hostIsAway(h.Health):
	case h.Health.State == protocol.HealthSuspect:
		p.well(h)
	default:
		h.Health.NextAt = workflow.Now(p.ctx)
		p.work = true
	}
}

func (p *healthPart) well(h *Host) {
	h.Reached = true
	if h.Health == nil {
		return
	}
	workflow.GetLogger(p.ctx).Info("host is well again", "host", h.Spec.Name, "since", h.Health.Since)
	h.Flaps, h.WellAt, h.Health = h.Health.Tries+1, workflow.Now(p.ctx), nil
	p.work = true
}

func (p *healthPart) probe() {
	now := workflow.Now(p.ctx)
	var due []protocol.HostSpec
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
		p.probes.Off()
	} else {
		p.probes.Set(next)
	}
	if len(due) == 0 {
		return
	}
	workflow.Go(p.ctx, func(ctx workflow.Context) {
		out, err := kit.Do(probing(ctx, due), hostJobs.ProbeHosts, hosts.ProbeHostsInput{Hosts: due})
		for i, spec := range due {
			delete(p.probing, spec.Name)
			if h := p.host(spec.Name); h == nil || changed(h.Spec, spec) {
				continue // the name now means another machine
			} else if err != nil {
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

// probeAt is zero if a host is not to be probed.
func (h *Host) probeAt() time.Time {
	if h.Health != nil {
		return h.Health.NextAt
	}
	return h.NewAt
}

func (h *Host) notProbed(now time.Time) {
	if h.Health != nil {
		h.Health.NextAt = now.Add(max(probePause(h.Health), time.Minute))
	} else if !h.NewAt.IsZero() {
		h.NewAt = now.Add(time.Minute)
	}
}

// probed records what a probe found. The time of the next one is rounded down, so that
// hosts that failed together are probed together.
func (p *healthPart) probed(h *Host, found hosts.HostProbed) {
	h.NewAt = time.Time{}
	if found.Facts != nil {
		h.Reached = true
		p.foundOut(h, found.Facts)
	}
	if found.Problem == nil {
		p.well(h)
		p.leftovers.tryCleaning(h.Spec.Name)
		return
	}
	p.failed(h, kit.FailureOfProblem(found.Problem))
	h.Health.State = protocol.HealthQuarantined
	h.Health.Tries++
	pause := probePause(h.Health)
	h.Health.NextAt = workflow.Now(p.ctx).Add(pause).Truncate(pause / 5)
}

// foundOut records labels. Those that need codex stay if the probe did not look for them.
func (p *healthPart) foundOut(h *Host, facts map[string]string) {
	found := foundLabels(facts)
	for _, k := range []string{"sandbox", "codex"} {
		if was, known := h.Found[k]; known && found[k] == "" {
			found[k] = was
		}
	}
	h.Found = found
	p.work = true
}

// probing is for an activity that probes many hosts. If its worker dies, another takes over
// after ten seconds.
func probing(ctx workflow.Context, due []protocol.HostSpec) workflow.Context {
	what := "probe " + due[0].Name
	if n := len(due); n > 1 {
		what = fmt.Sprintf("probe %d hosts", n)
	}
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 10 * time.Minute,
		HeartbeatTimeout:    kit.Beat,
		Summary:             kit.Cut(what, 100),
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second, MaximumAttempts: 5},
	})
}

func (p *healthPart) drainAway() {
	for _, a := range kit.Unread[protocol.HostAway](p.awy) {
		if h := p.host(a.Host); h != nil && (h.Health == nil || a.Problem.Kind == protocol.ErrTypeHostFlood) {
			p.failed(h, kit.FailureOfProblem(&a.Problem))
		}
	}
}

// labelsOf returns a new map; people's labels override those that a probe found.
func labelsOf(h *Host) map[string]string {
	all := make(map[string]string, len(h.Found)+len(h.Labels))
	for _, from := range []map[string]string{h.Found, h.Labels} {
		for _, k := range workflow.DeterministicKeys(from) {
			all[k] = from[k]
		}
	}
	return all
}

// foundLabels makes labels of facts. Memory is rounded up, because the kernel leaves out
// what it keeps for itself: a machine of 32 GiB reports 31.2.
func foundLabels(facts map[string]string) map[string]string {
	found := map[string]string{}
	put := func(k, v string) {
		if v != "" && v != "unknown" {
			found[k] = kit.Cut(v, kit.MaxWord)
		}
	}
	for _, k := range []string{"arch", "cpus", "sandbox", "codex"} {
		put(k, facts[k])
	}
	put("os", strings.ToLower(facts["os"]))
	libc, _, _ := strings.Cut(facts["libc"], " ") // without the version
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
