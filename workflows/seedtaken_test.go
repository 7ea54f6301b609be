package workflows

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"go.temporal.io/api/serviceerror"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/seed"
	"fairlead.dev/fairlead/workflows/session"
)

// The tests below terminate sessions on the real server at various steps.

// often makes workflows check leases every second.
var often = kit.Intervals{Reap: time.Second, Snapshot: kit.MostOften}

// makesSeed imports a login that rotates, into these pools.
func (r *real) makesSeed(name string, pools ...string) string {
	r.t.Helper()
	name = r.zone + "-" + name
	for i := range pools {
		pools[i] = r.zone + "-" + pools[i]
	}
	r.start(protocol.SeedID(name), protocol.TypeSeed, seed.Input{Name: name, Carry: &seed.State{}}) // its epochs begin at 1
	r.update(protocol.SeedID(name), protocol.UpdatePutSeed, nil, protocol.PutSeed{Name: name, Pools: &pools, Files: auth("1"),
		Ref: protocol.SeedRef{Blob: "seeds/" + name + "/b1", Digest: "d", Kind: "chatgpt"}})
	return name
}

func (r *real) seed(name string) protocol.SeedView {
	r.t.Helper()
	return asked[protocol.SeedView](r, protocol.SeedID(name), protocol.QuerySeed)
}

// pool returns the view of a pool of seeds. The view is empty if the pool does not exist
// yet.
func (r *real) pool(name string) (v protocol.SeedPoolView) {
	r.t.Helper()
	out, err := r.c.QueryWorkflow(r.t.Context(), protocol.SeedPoolID(name), "", protocol.QuerySeedPool)
	if err == nil {
		err = out.Get(&v)
	}
	var none *serviceerror.NotFound
	if err != nil && !errors.As(err, &none) {
		r.t.Fatalf("query seed pool %s: %v", name, err)
	}
	return v
}

func (r *real) terminate(session string) {
	r.t.Helper()
	if err := r.c.TerminateWorkflow(r.t.Context(), protocol.SessionID(session), "", "for the test"); err != nil {
		r.t.Fatal(err)
	}
}

// Whenever a holder is terminated, the login that it may have is fetched before the next
// holder gets the seed.
func TestAKilledHoldersLoginIsFetchedBeforeTheNextGrant(t *testing.T) {
	steps := []struct {
		name string
		to   func(r *real, id string) // brings the holder to that step
	}{
		{"granted", func(r *real, id string) {
			r.host.gate("prepare " + id)
			r.until("it holds the seed", func() bool { return r.view(id).State == protocol.Preparing })
		}},
		{"prepared", func(r *real, id string) { r.becomes(id, protocol.Starting) }},
		{"idle", func(r *real, id string) { r.becomes(id, protocol.Idle) }},
		{"running", func(r *real, id string) {
			r.say(id, "m1", "stay")
			r.until("a pump is attached", func() bool { return r.host.attached(id) })
		}},
		{"waiting", func(r *real, id string) { r.say(id, "m1", "ask make"); r.becomes(id, protocol.Waiting) }},
		{"releasing", func(r *real, id string) {
			r.becomes(id, protocol.Idle)
			r.host.gate("close " + id)
			r.update(protocol.SessionID(id), protocol.SignalClose, nil, protocol.Close{})
			r.becomes(id, protocol.Closing)
		}},
	}
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			r := newReal(t)
			r.looksOften()
			r.work()
			name := r.makesSeed("team")
			id := r.zone + ".holder"
			if step.name == "prepared" {
				r.host.gate(id)
			}
			if step.name == "granted" {
				r.host.gate("prepare " + id)
			}
			r.session("holder", session.Options{Seed: name})
			step.to(r, id)
			next := r.session("next", session.Options{Seed: name})
			r.until("the next one waits", func() bool { return r.seed(name).Queue == 1 })
			r.terminate(id)
			r.becomes(next, protocol.Idle)
			r.host.mu.Lock()
			defer r.host.mu.Unlock()
			if n := r.host.crowds[name]; n != 1 {
				t.Errorf("the login was in %d places at a time", n)
			}
			if len(r.host.recovered) != 1 || r.host.recovered[0].Claim.Session != id || r.host.recovered[0].Claim.Host.Name != "web-1" ||
				r.host.recovered[0].Seed.Epoch != 1 {
				t.Errorf("fetched %+v", r.host.recovered)
			}
		})
	}
}

// A session that is terminated in the queue had no login, so nothing is fetched.
func TestWhoIsKilledInTheLineLeavesNoGrant(t *testing.T) {
	r := newReal(t)
	r.looksOften()
	r.work()
	name := r.makesSeed("team", "logins")
	holder := r.session("holder", session.Options{Seed: name})
	r.becomes(holder, protocol.Idle)
	inLine := []string{r.session("direct", session.Options{Seed: name}), r.session("by-pool", session.Options{SeedPool: r.zone + "-logins"})}
	r.until("both wait", func() bool {
		return r.seed(name).Queue == 1 && r.pool(r.zone+"-logins").Queue == 1
	})
	for _, id := range inLine {
		r.terminate(id)
	}
	r.close(holder)
	next := r.session("next", session.Options{Seed: name})
	r.becomes(next, protocol.Idle)
	if v := r.seed(name); fmt.Sprint(v.HeldBy) != fmt.Sprint([]string{next}) || v.Health == protocol.Suspect {
		t.Errorf("seed is %+v", v)
	}
	r.host.mu.Lock()
	defer r.host.mu.Unlock()
	if len(r.host.recovered) != 0 {
		t.Errorf("fetched %+v", r.host.recovered)
	}
}

// Ten sessions share two logins through a pool, and one takes a login directly,
// while workflows continue as new all the time.
func TestAPoolOfLoginsServesMoreSessionsThanItHas(t *testing.T) {
	r := newReal(t, shortRuns)
	r.looksOften()
	r.work()
	r.update(protocol.PoolID(r.zone), protocol.UpdatePutHost, nil, func() protocol.PutHost { h := put("web-1", 20); h.Replace = true; return h }())
	a, b := r.makesSeed("a", "logins"), r.makesSeed("b", "logins")
	pool := r.zone + "-logins"
	r.until("the pool knows both", func() bool { return len(r.pool(pool).Seeds) == 2 })
	var ids []string
	for i := range 10 {
		opt := session.Options{SeedPool: pool, CloseAfter: true}
		if i == 3 {
			opt = session.Options{Seed: a, CloseAfter: true}
		}
		id := r.session(fmt.Sprint("s", i), opt)
		r.say(id, "m1", "hello")
		ids = append(ids, id)
	}
	for _, id := range ids {
		if v, err := r.result(id); err != nil || v.State != protocol.Closed || v.Seed != a && v.Seed != b {
			t.Errorf("session %s ended as %+v (%v)", id, v, err)
		}
	}
	r.host.mu.Lock()
	defer r.host.mu.Unlock()
	for _, name := range []string{a, b} {
		if n := r.host.crowds[name]; n != 1 {
			t.Errorf("login %s was in %d places at a time", name, n)
		}
	}
	if len(r.host.granted) != 10 || len(r.host.recovered) != 0 {
		t.Errorf("granted %v, fetched %+v", r.host.granted, r.host.recovered)
	}
}
