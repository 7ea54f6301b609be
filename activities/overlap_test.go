package activities

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/activities/snaps"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
	"fairlead.dev/fairlead/snapshots"
)

// A crossedPool calls happen a single time, before a worker next lists or reads a tree
// on a host.
type crossedPool struct {
	site.HostPool
	happen func()
	once   sync.Once
}

type crossedHost struct {
	hostexec.Host
	pool *crossedPool
}

func (p *crossedPool) Host(spec protocol.HostSpec) (hostexec.Host, error) {
	h, err := p.HostPool.Host(spec)
	return &crossedHost{h, p}, err
}

func (h *crossedHost) Start(ctx context.Context, c hostexec.Command) (hostexec.Stream, error) {
	h.pool.once.Do(h.pool.happen)
	return h.Host.Start(ctx, c)
}

// printedLogin returns a session whose codex is about to refresh its login, after a
// command has printed the new one.
func (b *bed) printedLogin(id string) *talk {
	b.t.Helper()
	k, _ := b.held(id, nil)
	k.sh(`mkdir -p "$1/sessions/2026" && echo '{}' >"$1/sessions/2026/rollout-x.jsonl" && printf %s "$3" >"$2/printed"`,
		k.layout.CodexHome, k.layout.WorkDir, login("acct-1", 1))
	return k
}

// holdsNoLogin checks that a snapshot does not have the newer login.
func (b *bed) holdsNoLogin(id string) {
	b.t.Helper()
	newer := seeds.AuthSecrets([]byte(login("acct-1", 1)))
	if len(newer) == 0 {
		b.t.Fatal("there is nothing to hide")
	}
	for _, secret := range newer {
		if got := b.exported(id)["work/printed"]; strings.Contains(got, secret.Reveal()) || len(got) != len(login("acct-1", 1)) {
			b.t.Errorf("kept %q", got)
		}
	}
}

// A login that codex refreshed while the snapshot was taken is masked like any other.
// There is never a complete snapshot in which it is not masked.
func TestALoginRefreshedDuringASnapshotIsMaskedInIt(t *testing.T) {
	b := newBed(t, readyHost(t))
	k := b.printedLogin("refreshed")
	pool := &crossedPool{HostPool: b.pool, happen: func() { k.rewrite(login("acct-1", 1)) }}
	b.set.site.Pool = pool
	got, err := snaps.Take(t.Context(), b.set.site, k.parking(1, "").TakeSnapshotInput, k.hides(), nil)
	if err != nil || got == nil {
		t.Fatalf("taken %+v, %v", got, err)
	}
	pool.once.Do(func() { t.Error("the login was not refreshed on the way") })
	b.holdsNoLogin(got.ID)
	// Worker after worker dies before it has checked the login, so there is no
	// snapshot.
	in := k.parking(2, "").TakeSnapshotInput
	dying := b.dies()
	for step := int64(0); ; step++ {
		if step > 100 {
			t.Fatal("it never gets through")
		}
		k.rewrite(login("acct-1", 0))
		pool := &crossedPool{HostPool: dying, happen: func() { k.rewrite(login("acct-1", 1)) }}
		b.set.site.Pool = pool
		b.set.site.Recall.Last = nil // a worker that has just started
		dying.left.Store(step)
		_, err := snaps.Take(t.Context(), b.set.site, in, k.hides(), nil)
		dying.left.Store(1 << 40)
		id := snaps.SnapshotID("refreshed", in.At, 1, 2)
		if _, rerr := snapshots.Read(t.Context(), b.store, id); rerr == nil {
			b.holdsNoLogin(id)
		}
		if err == nil {
			break
		}
		if !strings.Contains(err.Error(), errDied.Error()) {
			t.Fatalf("after %d steps: %v", step, err)
		}
	}
}

// The server gave up an attempt, but the attempt goes on. Meanwhile another attempt has
// taken the snapshot, and the session goes on from that. The late attempt deletes
// nothing and returns the same snapshot.
func TestALateAttemptDeletesNoSnapshotOfAnother(t *testing.T) {
	b := newBed(t, readyHost(t))
	k := b.printedLogin("crossed")
	in := k.parking(1, "").TakeSnapshotInput
	late := b.another()
	var good *snaps.SnapshotBrief
	var made time.Time
	written := func() time.Time {
		info, err := b.store.Stat(t.Context(), "snapshots/crossed/"+good.ID+"/manifest.json")
		if err != nil {
			t.Fatal(err)
		}
		return info.ModTime
	}
	late.set.site.Pool = &crossedPool{HostPool: late.pool, happen: func() {
		var err error
		if good, err = snaps.Take(t.Context(), b.set.site, in, k.hides(), nil); err != nil || good == nil {
			t.Fatalf("taken %+v, %v", good, err)
		}
		made = written()
		k.rewrite(login("acct-1", 1)) // after that, the login was refreshed
	}}
	hide, err := site.Hiding(t.Context(), late.set.site, k.seed)
	if err != nil {
		t.Fatal(err)
	}
	got, err := snaps.Take(t.Context(), late.set.site, in, hide, nil)
	if err != nil || good == nil || got == nil || got.ID != good.ID || !got.At.Equal(good.At) {
		t.Errorf("the late one says %+v, %v; there was %+v", got, err, good)
	}
	all, err := snapshots.List(t.Context(), b.store, "crossed")
	if err != nil || len(all) != 1 || all[0].ID != good.ID || !all[0].Complete || !written().Equal(made) {
		t.Errorf("there are %+v, %v", all, err)
	}
	b.exported(good.ID)
}
