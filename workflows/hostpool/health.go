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
// watch cannot reach it. From then on it gets no session, and is probed at growing
// intervals. If a probe fails as well, the host is quarantined. A probe that succeeds, or a
// check that finds everything in order, ends any failure. A watch that reaches the host
// ends only a suspicion that the host cannot be reached. Sessions that wait for the host go
// on waiting. But a host that was never reached since it was put into the inventory may
// have wrong settings, so whoever named it is told at once.
var probePauses = []time.Duration{time.Second, 5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute}

const (
	// If a host fails again within failsAgain after its recovery, the pauses between its
	// probes go on growing where they stopped. Such a host may pass its probes and still be
	// of no use.
	failsAgain = 10 * time.Minute
	// maxProbes bounds how many hosts one activity probes, because its findings
	// must fit into its result.
	maxProbes = 200
)

// healthPart probes hosts, and drains them.
type healthPart struct {
	*poolCore
	leftovers *leftoversPart

	awy     workflow.ReceiveChannel
	probing map[string]bool // hosts that are being probed
	probes  *kit.Wake       // for the next hosts that are due
}

// eligible returns why a host takes no new session now, or nil if it does. The kind
// is busy if waiting for the host makes sense.
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

// failed records that a host cannot be used. If that is known already, only the
// reason changes.
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
	h.Health.Kind, h.Health.Reason, h.Health.Hint = f.Kind, kit.Cut(f.Message, kit.MaxReason), kit.Cut(f.Hint, kit.MaxReason)
	p.work = true
}

func probePause(h *protocol.HostHealth) time.Duration {
	return probePauses[min(h.Tries, len(probePauses)-1)]
}

// hostIsAway reports whether the failure is that nobody could log in to the host. Anybody
// who reaches the host shows that such a failure is over.
func hostIsAway(h *protocol.HostHealth) bool {
	return h.Kind == protocol.ErrTypeUnreachable || h.Kind == protocol.ErrTypeAuth || h.Kind == protocol.ErrTypeHostKey
}

func lacksCodex(h *protocol.HostHealth) bool {
	return h.Kind == protocol.ErrTypeCodexMissing || h.Kind == protocol.ErrTypeCodexVersion
}

// gotIn records that somebody reached a host. If the host was only suspected to be out of
// reach, it is well. If a probe failed to reach the host, only a successful probe ends the
// quarantine, and the next probe is due at once. Other failures stay.
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

// probe probes all hosts that are due and not being probed, with one activity, and
// sets the alarm for the next ones.
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
			} else if err != nil { // nothing is known of the host
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

// probeAt returns when a host is to be probed; zero means never.
func (h *Host) probeAt() time.Time {
	if h.Health != nil {
		return h.Health.NextAt
	}
	return h.NewAt
}

// notProbed postpones a probe whose outcome is not known.
func (h *Host) notProbed(now time.Time) {
	if h.Health != nil {
		h.Health.NextAt = now.Add(max(probePause(h.Health), time.Minute))
	} else if !h.NewAt.IsZero() {
		h.NewAt = now.Add(time.Minute)
	}
}

// probed records what a probe found. The time of the next one is rounded down, so
// that hosts that failed together are probed together from then on.
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

// foundOut records the labels that a probe found. Labels that need codex stay if
// the probe did not look for them.
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

// probing is for an activity that probes many hosts. If its worker dies, another one takes
// over after ten seconds. While no worker runs, the activity waits.
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
		if h := p.host(a.Host); h != nil && h.Health == nil {
			p.failed(h, kit.FailureOfProblem(&a.Problem))
		}
	}
}

// labelsOf returns a host's labels: those that a probe found, overridden by those
// that people gave it. The caller may change the map.
func labelsOf(h *Host) map[string]string {
	all := make(map[string]string, len(h.Found)+len(h.Labels))
	for _, from := range []map[string]string{h.Found, h.Labels} {
		for _, k := range workflow.DeterministicKeys(from) {
			all[k] = from[k]
		}
	}
	return all
}

// foundLabels makes labels of what a probe found. Memory is rounded up, because the kernel
// leaves out what it keeps for itself: a machine of 32 GiB reports 31.2. The space on the
// disk is rounded down.
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
	libc, _, _ := strings.Cut(facts["libc"], " ") // the library's version follows the space
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
