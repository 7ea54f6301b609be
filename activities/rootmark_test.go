package activities

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/activities/snaps"
	"fairlead.dev/fairlead/internal/protocol"
)

// A disk has the root folder of a host, and can be unmounted.
type disk struct {
	t    *testing.T
	root string
}

func newDisk(t *testing.T) *disk { return &disk{t, filepath.Join(t.TempDir(), "root")} }

func (d *disk) away() string { return d.root + ".away" }

func (d *disk) unmount() {
	d.t.Helper()
	if err := os.Rename(d.root, d.away()); err != nil {
		d.t.Fatal(err)
	}
}

func (d *disk) mount() {
	d.t.Helper()
	if err := os.RemoveAll(d.root); err != nil {
		d.t.Fatal(err)
	}
	if err := os.Rename(d.away(), d.root); err != nil {
		d.t.Fatal(err)
	}
}

// withoutDisk returns the ways in which a root folder may look while its disk is
// not mounted.
func withoutDisk(b *bed, d *disk) map[string]func() {
	another := func() {
		in := places.PrepareSessionInput{Claim: protocol.Claim{Session: "other", Host: b.spec, Generation: 1}, Sandbox: "danger-full-access"}
		if _, err := b.prepare(in); err != nil {
			b.t.Fatal(err)
		}
	}
	return map[string]func(){
		"no folder": func() {},
		"an empty mount point": func() {
			if err := os.Mkdir(d.root, 0o755); err != nil {
				b.t.Fatal(err)
			}
		},
		"another root was made there": another,
		"a script made the session's folder": func() {
			another()
			if err := os.MkdirAll(filepath.Join(d.root, "sessions", "moored"), 0o700); err != nil {
				b.t.Fatal(err)
			}
		},
	}
}

// notMounted checks that an activity failed with a retryable error that says that the
// root folder is missing.
func notMounted(t *testing.T, what, root string, err error) {
	t.Helper()
	err = kit.Failing{}.Failure(t.Context(), what, err)
	var app *temporal.ApplicationError
	if !errors.As(err, &app) || app.Type() != "root_missing" || app.NonRetryable() ||
		!strings.Contains(err.Error(), root) || !strings.Contains(err.Error(), "local") || !strings.Contains(err.Error(), "is its disk mounted?") {
		t.Errorf("%s: %v", what, err)
	}
}

// After a reboot the disk with the root folder is not mounted yet. No activity
// concludes that something is wiped, saved or never begun. All goes on after the disk
// is mounted.
func TestARootWhoseDiskIsNotMountedIsWaitedFor(t *testing.T) {
	for _, name := range []string{"no folder", "an empty mount point", "another root was made there", "a script made the session's folder"} {
		t.Run(name, func(t *testing.T) {
			d := newDisk(t)
			b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: d.root})
			k := b.prepared("moored", "", "danger-full-access", b.rotating(nil, "moored", 3))
			t.Cleanup(func() { k.claim.Generation = 1 << 20 }) // the clean-up needs a higher generation
			k.rewrite(login("acct-1", 1))
			k.sh(`echo precious >"$1/work.txt"`, k.layout.WorkDir)
			d.unmount()
			withoutDisk(b, d)[name]()

			s := b.set
			ctx := t.Context()
			_, err := places.StartServer(ctx, s.Place.Site, places.StartServerInput{Claim: k.next(), Layout: k.layout, Incarnation: 1}, 1)
			notMounted(t, "start", d.root, err)
			k.state.Cursor = protocol.Cursor{Incarnation: 1}
			_, err = pumps.RunPump(ctx, s.Pump.Site, k.input(), quiet(1))
			notMounted(t, "pump", d.root, err)
			_, err = places.StopServer(ctx, s.Place.Site, places.StopServerInput{Claim: k.next(), Layout: k.layout, Incarnation: 1, Seed: k.seed}, 1)
			notMounted(t, "stop", d.root, err)
			_, err = snaps.Take(ctx, s.site, k.parking(1, "").TakeSnapshotInput, site.Secrets{}, nil)
			notMounted(t, "take a snapshot", d.root, err)
			_, err = k.park(k.parking(1, ""))
			notMounted(t, "park", d.root, err)
			closed, err := k.close(k.closing())
			notMounted(t, "close", d.root, err)
			if closed.Wiped || closed.Removed {
				t.Errorf("closed: %+v", closed)
			}
			unknown := k.closing()
			unknown.Layout = protocol.Layout{}
			_, err = k.close(unknown)
			notMounted(t, "close without knowing where", d.root, err)
			recovered, err := k.recover(k.seed)
			notMounted(t, "recover the seed", d.root, err)
			if recovered.Absent || recovered.Wiped {
				t.Errorf("recovered: %+v", recovered)
			}
			again := places.PrepareSessionInput{Claim: k.next(), Seed: k.seed, Sandbox: "danger-full-access"}
			_, err = b.prepare(again)
			notMounted(t, "prepare again", d.root, err)
			left := k.leave(false)
			wiped, err := k.wipe(left, knows(inquiry.SeedNow{Generation: 1, Ref: k.seed}))
			notMounted(t, "wipe what is left", d.root, err)
			left.Layout = protocol.Layout{}
			if wiped.Wiped || wiped.Removed {
				t.Errorf("wiped: %+v", wiped)
			}
			_, err = k.wipe(left, knows(inquiry.SeedNow{Generation: 1, Ref: k.seed}))
			notMounted(t, "wipe what is left, without knowing where", d.root, err)

			d.mount()
			if out, err := k.recover(k.seed); err != nil || out.Saved == nil {
				t.Errorf("with the disk there, recovered: %+v, %v", out, err)
			}
		})
	}
}

// A person may give up a session's folder on a disk that never comes back. The
// credential there is not reported as wiped, because nobody looked at it.
func TestWhatIsOnADiskThatIsGoneCanBeDiscarded(t *testing.T) {
	d := newDisk(t)
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: d.root})
	k := b.prepared("moored", "", "danger-full-access", b.rotating(nil, "moored", 3))
	k.job()
	d.unmount()
	in := k.closing()
	in.Discard = true
	out, err := k.close(in)
	if err != nil || out.Wiped || out.Removed || !out.Unsaved || out.Problem == nil || out.Problem.Kind != protocol.ErrTypeDiscarded ||
		!strings.Contains(out.Problem.Message, "is its disk mounted?") {
		t.Errorf("closed: %+v, %v", out, err)
	}
	if n := marked("moored"); n != 0 {
		t.Errorf("%d processes of the session are left", n)
	}
	if _, err := os.Lstat(d.root); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("closing has made the root folder: %v", err)
	}
	d.mount()
}

// For a session that never reached its host, or that an earlier version prepared there,
// the store has no record of the root folder.
func TestARootWithoutAMarkIsBelievedWhereOursIsInIt(t *testing.T) {
	d := newDisk(t)
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: d.root})
	k := &talk{bed: b, claim: protocol.Claim{Session: "old", Host: b.spec, Generation: 1}, seed: b.rotating(nil, "old", 3)}
	// Nothing of ours is there, and it is not known whether anything was there before.
	_, err := k.recover(k.seed)
	notMounted(t, "recover the seed", d.root, err)
	k.layout = folder.LayoutOf(d.root, "old")
	_, err = k.close(k.closing())
	notMounted(t, "close what was prepared", d.root, err)
	never := k.closing()
	never.Layout = protocol.Layout{}
	if out, err := k.close(never); err != nil || !out.Wiped || out.Problem != nil {
		t.Errorf("closed what never came that far: %+v, %v", out, err)
	}
	for _, there := range []string{"codex/0.169.0-abc", "sessions/another/work"} {
		if err := os.MkdirAll(filepath.Join(d.root, there), 0o700); err != nil {
			t.Fatal(err)
		}
		if out, err := k.recover(k.seed); err != nil || !out.Absent {
			t.Errorf("with %s, recovered: %+v, %v", there, out, err)
		}
		if err := os.RemoveAll(d.root); err != nil {
			t.Fatal(err)
		}
	}
}

// After a session was parked, closed or cleaned up, a new root folder in the same place
// is used like any other.
func TestARootMayBeMadeAnewBehindASession(t *testing.T) {
	d := newDisk(t)
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: d.root})
	anew := func() {
		t.Helper()
		if err := os.RemoveAll(d.root); err != nil {
			t.Fatal(err)
		}
	}
	k := b.worked("parker")
	one := k.parked(1, "")
	anew()
	if out, err := k.up(b.spec, snaps.RestoreSpec{Snapshot: one.ID}); err != nil || out.Restored != folder.RestoredSnapshot {
		t.Errorf("prepared where it was parked: %+v, %v", out, err)
	}
	if out, err := k.close(k.closing()); err != nil || !out.Removed {
		t.Errorf("closed: %+v, %v", out, err)
	}
	anew()
	k.claim.Generation++
	in := places.PrepareSessionInput{Claim: k.next(), Seed: k.seed, Sandbox: "danger-full-access"}
	if _, err := b.prepare(in); err != nil {
		t.Errorf("prepared where one of that name was closed: %v", err)
	}
	if out, err := k.wipe(k.leave(false), knows(inquiry.SeedNow{Generation: 1, Ref: k.seed})); err != nil || !out.Removed {
		t.Errorf("cleaned up: %+v, %v", out, err)
	}
	anew()
	in.Claim = k.next()
	if _, err := b.prepare(in); err != nil {
		t.Errorf("prepared where one of that name was cleaned up: %v", err)
	}
}

// If several calls make a root folder at once, one of them makes it, and all use the
// same.
func TestARootIsMadeOnce(t *testing.T) {
	d := newDisk(t)
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: d.root})
	const n = 8
	ids, errs := make(chan string, n), make(chan error, n)
	for range n {
		go func() {
			id, err := hosts.EnterRoot(context.WithoutCancel(t.Context()), b.host(), d.root, "")
			ids <- id
			errs <- err
		}()
	}
	first := <-ids
	for range n - 1 {
		if id := <-ids; id == "" || id != first {
			t.Errorf("the root is %q for one, and %q for another", id, first)
		}
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}
