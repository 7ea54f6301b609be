package activities

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
)

// A bombPool gives out real hosts that send zeros for ever instead of running a script with
// this text.
type bombPool struct {
	*hostexec.Pool
	script string
}

func (p *bombPool) Host(spec protocol.HostSpec) (hostexec.Host, error) {
	h, err := p.Pool.Host(spec)
	return &bombHost{h, p}, err
}

type bombHost struct {
	hostexec.Host
	pool *bombPool
}

func (h *bombHost) armed(c hostexec.Command) hostexec.Command {
	if strings.Contains(c.Script, h.pool.script) {
		c.Script, c.Fence = "exec cat /dev/zero", nil
	}
	return c
}

func (h *bombHost) Run(ctx context.Context, c hostexec.Command) (hostexec.Result, error) {
	return h.Host.Run(ctx, h.armed(c))
}

func (h *bombHost) Start(ctx context.Context, c hostexec.Command) (hostexec.Stream, error) {
	return h.Host.Start(ctx, h.armed(c))
}

// aways stands in for Temporal: it records which hosts pools are told of.
type aways struct {
	client.Client
	mu   sync.Mutex
	told []string
}

func (a *aways) SignalWorkflow(_ context.Context, id, _, name string, arg any) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	away := arg.(protocol.HostAway)
	a.told = append(a.told, fmt.Sprintf("%s %s %s %s", id, name, away.Host, away.Problem.Kind))
	return nil
}

func (a *aways) take() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := strings.Join(a.told, "\n")
	a.told = nil
	return out
}

// Wherever a host sends a bomb, it costs one failed activity, which is not retried, and the
// pool is told to quarantine the host.
func TestAHostThatSendsABombCostsOneActivity(t *testing.T) {
	b := newBed(t, readyHost(t))
	k := b.worked("flood")
	pool, told := &bombPool{Pool: b.pool}, &aways{}
	b.set.site.Pool, b.set.site.Temporal, b.set.site.Zone = pool, told, "west"
	taking := func(policy string) func() any {
		return func() any {
			in := k.parking(1, "").TakeSnapshotInput
			in.Policy.Work = policy
			return in
		}
	}
	const bomb = "pool/west host_away "
	for _, c := range []struct {
		name, script, activity string
		in                     func() any
	}{
		{"a check", "getconf _NPROCESSORS_ONLN", "CheckHost", func() any { return hosts.CheckHostInput{Host: b.spec} }},
		{"a listing", "found() {", "TakeSnapshot", taking(protocol.WorkFull)},
		{"files that are read", "pack() {", "TakeSnapshot", taking(protocol.WorkFull)},
		{"what git says", "diff-index --cached", "TakeSnapshot", taking(snapshots.WorkGit)},
		{"an attachment", "no process was started", "RunPump", func() any { return k.input() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestActivityEnvironment()
			env.SetTestTimeout(patience)
			env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{b.set.Floods()}})
			b.set.Register(env)
			pool.script = c.script
			defer func() { pool.script = "no such script" }()
			in := c.in()
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			_, err := env.ExecuteActivity(c.activity, in)
			runtime.ReadMemStats(&after)
			app := appError(t, err)
			var p protocol.Problem
			if app.Type() != protocol.ErrTypeHostFlood || !app.NonRetryable() || app.Details(&p) != nil || p.Kind != protocol.ErrTypeHostFlood || p.Hint == "" {
				t.Errorf("%+v: %v", p, err)
			}
			if got := told.take(); got != bomb+b.spec.Name+" "+protocol.ErrTypeHostFlood {
				t.Errorf("the pool was told: %q", got)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
				t.Errorf("it took %d MiB", took>>20)
			}
		})
	}

	// What people ask for over the API is no activity.
	w := b.set.Workfolders()
	w.Where = func(context.Context, string) (workspaces.Place, error) {
		return workspaces.Place{Claim: k.claim, Layout: k.layout, Seed: k.seed}, nil
	}
	pool.script = "given() {"
	var out strings.Builder
	if err := w.FetchFiles(t.Context(), "flood", []string{"work.txt"}, false, &out); err == nil {
		t.Error("a bomb was fetched")
	}
	if got := told.take(); got != bomb+b.spec.Name+" "+protocol.ErrTypeHostFlood {
		t.Errorf("the pool was told: %q", got)
	}
	// A probe tells it in its result, to the pool itself.
	pool.script = "getconf _NPROCESSORS_ONLN"
	found, err := b.set.Host.ProbeHosts(t.Context(), hosts.ProbeHostsInput{Hosts: []protocol.HostSpec{b.spec}})
	if p := found.Hosts[0].Problem; err != nil || p == nil || p.Kind != protocol.ErrTypeHostFlood {
		t.Errorf("probed: %+v, %v", p, err)
	}
}

// A folder of more files than are fetched at once is refused, and its list is not read to
// its end.
func TestAFolderWithTooManyFilesIsRefused(t *testing.T) {
	b := newBed(t, readyHost(t))
	k := b.worked("many")
	k.sh(`cd "$1" && mkdir many && cd many && i=0 && while [ $i -lt 10001 ]; do echo $i; i=$((i + 1)); done | xargs touch`, k.layout.WorkDir)
	w := b.set.Workfolders()
	w.Where = func(context.Context, string) (workspaces.Place, error) {
		return workspaces.Place{Claim: k.claim, Layout: k.layout, Seed: k.seed}, nil
	}
	var out strings.Builder
	err := w.FetchFiles(t.Context(), "many", []string{"many"}, false, &out)
	if p := workspaces.Told(t.Context(), "fetch", err); p.Kind != protocol.ErrTypeBadInput || !strings.Contains(p.Message, "at most 10000 files") {
		t.Errorf("%+v", p)
	}
}
