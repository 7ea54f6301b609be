package activities

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/activities/snaps"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
)

// A host that lost its power may come back with empty marks. Each folder gets a
// snapshot of its own before it is removed, with or without a mark.
func TestEachFolderWithoutAMarkIsKept(t *testing.T) {
	b := newBed(t, readyHost(t))
	k := b.worked("unmarked")
	one := k.parked(1, "")
	kept := map[string]bool{}
	is := func(what, id, want string) {
		t.Helper()
		if id == "" || kept[id] || b.exported(id)["work/work.txt"] != want {
			t.Fatalf("%s: kept as %q (so far %v)", what, id, kept)
		}
		kept[id] = true
	}
	for n, torn := range []string{"", "generation 1", ""} {
		k.sh(`echo "$2" >"$1/work/work.txt" && printf %s "$3" >"$1/generation"`, k.layout.Dir, fmt.Sprint("unsaved ", n), torn)
		out, err := k.up(k.spec, snaps.RestoreSpec{Snapshot: one.ID})
		if err != nil {
			t.Fatal(err)
		}
		is("another generation came", out.Left, fmt.Sprint("unsaved ", n, "\n"))
	}
	for n, generation := range []int64{k.claim.Generation, 0} {
		k.sh(`mkdir -p "$1/work" && echo "$2" >"$1/work/work.txt" && if [ "$3" = 0 ]; then : >"$1/generation"; fi`, k.layout.Dir, fmt.Sprint("left ", n), fmt.Sprint(generation))
		in := k.leave(false)
		in.Generation = generation
		out, err := k.wipe(in, knows(inquiry.SeedNow{Generation: 1, Ref: k.seed}))
		if err != nil || !out.Removed {
			t.Fatalf("cleaned up %+v, %v", out, err)
		}
		is("somebody cleaned up", out.Archive, fmt.Sprint("left ", n, "\n"))
	}
}

// Every attempt to clean up a folder without a mark makes the same snapshot. An attempt
// that finds another folder there makes another snapshot.
func TestEachTryAtAFolderWithoutAMarkMakesTheSameSnapshot(t *testing.T) {
	b := newBed(t, readyHost(t))
	k := b.worked("tried")
	k.sh(`: >"$1/generation"`, k.layout.Dir)
	in := k.leave(false)
	in.Seed, in.Generation, in.Found = nil, 0, 1_700_000_000
	count := func(what string, want int) {
		t.Helper()
		if all, err := snapshots.List(t.Context(), b.store, "tried"); err != nil || len(all) != want {
			t.Errorf("%s: there are %d snapshots, %v", what, len(all), err)
		}
	}
	for n := range 3 {
		in.Claim.Generation++ // the connection is lost after each try
		if id, err := places.KeepFolder(t.Context(), b.set.Place.Site, b.host(), k.layout, in, folder.FolderMark{}, nil, nil); err != nil || id == "" {
			t.Fatalf("kept %q, %v", id, err)
		}
		count(fmt.Sprint("try ", n), 1)
	}
	in.Claim.Generation++
	out, err := k.wipe(in, knows(inquiry.SeedNow{}))
	if err != nil || !out.Removed || b.exported(out.Archive)["work/work.txt"] != "precious\n" {
		t.Errorf("wiped %+v, %v", out, err)
	}
	count("in the end", 1)
	k.sh(`mkdir -p "$1/work" && echo another >"$1/work/work.txt" && : >"$1/generation"`, k.layout.Dir)
	in.Claim.Generation++
	in.Found++
	if out, err = k.wipe(in, knows(inquiry.SeedNow{})); err != nil || !out.Removed || b.exported(out.Archive)["work/work.txt"] != "another\n" {
		t.Errorf("another one: %+v, %v", out, err)
	}
	count("of another", 2)
	k.claim.Generation += 100
}

// Only few bits of a snapshot's id depend on its content. So a folder must not be
// removed because of a snapshot that has the right id but other content.
func TestASnapshotOfSomethingElseStandsForNoFolder(t *testing.T) {
	b := newBed(t, readyHost(t))
	k := b.worked("twin")
	other := func(id string, facts snapshots.Facts) {
		t.Helper()
		l := k.layout
		_, err := snapshots.Take(t.Context(), b.host(), b.set.site.Chunks, snapshots.TakeSpec{ID: id, Session: "twin", At: time.Now(), Facts: facts,
			Trees: []snapshots.TreeSpec{snapshots.RolloutsOf(l.CodexHome)}})
		if err != nil {
			t.Fatal(err)
		}
	}
	leave := k.leave(false)
	name, thread := k.claim.Host.Name, k.state.ThreadID
	gone := leave.Claim
	gone.Generation = leave.Generation
	other(snaps.LeftID(leave.Claim, leave.Generation, 0), snapshots.Facts{Host: name, Generation: 77, Left: true})
	for n, facts := range []snapshots.Facts{
		{Host: name, Generation: 77, ThreadID: thread},
		{Host: name, Generation: leave.Generation, ThreadID: "another"},
		{Host: "another", Generation: leave.Generation, ThreadID: thread},
		{Host: name, Generation: leave.Generation, ThreadID: thread, Left: true},
	} {
		// Each time there is one more such snapshot. Closing and cleaning up find all
		// of them.
		other(places.ClosingID(places.CloseSessionInput{Claim: gone, ThreadID: thread}, time.Now(), n), facts)
	}
	out, err := k.wipe(leave, knows(inquiry.SeedNow{Generation: 1, Ref: k.seed}))
	if err != nil || !out.Removed || b.exported(out.Archive)["work/work.txt"] != "precious\n" {
		t.Errorf("cleaned up %+v, %v", out, err)
	}
	if m, err := snapshots.Read(t.Context(), b.store, out.Archive); err != nil || !m.Left || m.Generation != leave.Generation {
		t.Errorf("kept as %+v, %v", m, err)
	}
}

func TestASessionClosesBesideASnapshotOfSomethingElse(t *testing.T) {
	b := newBed(t, readyHost(t))
	k := b.worked("twin-closes")
	in := k.closing()
	_, err := snapshots.Take(t.Context(), b.host(), b.set.site.Chunks, snapshots.TakeSpec{ID: places.ClosingID(in, time.Now(), 0), Session: "twin-closes",
		Facts: snapshots.Facts{Host: k.claim.Host.Name, Generation: 77, ThreadID: in.ThreadID}, Trees: []snapshots.TreeSpec{snapshots.RolloutsOf(k.layout.CodexHome)}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := k.close(in)
	if err != nil || !out.Removed || b.exported(out.Archive)["work/work.txt"] != "precious\n" {
		t.Errorf("closed %+v, %v", out, err)
	}
}

// loggedTools logs to a file of the host which of some programs were run.
type loggedTools struct {
	hostexec.Host
	dir string
}

func (h loggedTools) Run(ctx context.Context, c hostexec.Command) (hostexec.Result, error) {
	c.Args = append([]string{h.dir}, c.Args...)
	c.Script = `PATH=$1:$PATH; export PATH; shift
` + c.Script
	return h.Host.Run(ctx, c)
}

// A mark is flushed to the disk before it gets its final name.
func TestAMarkIsOnTheDiskBeforeItCounts(t *testing.T) {
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: t.TempDir() + "/root"})
	l := folder.LayoutOf(b.spec.Root, "flushed")
	tools := t.TempDir()
	b.sh(`cd "$1" && for p in dd mv; do
	printf '#!/bin/sh\necho %s "$@" >>"%s/log"\nexec %s "$@"\n' $p "$1" "$(command -v $p)" >$p && chmod +x $p
done`, tools)
	h := loggedTools{b.host(), tools}
	fence := folder.FenceOf(protocol.Claim{Session: "flushed", Generation: 1, Pump: 1}, l.Dir, 1)
	for what, mark := range map[string]func() error{
		"made": func() error {
			_, err := places.MakeFolders(t.Context(), h, l, folder.FolderMark{Generation: 1}, fence)
			return err
		},
		"marked": func() error {
			return folder.WriteMark(t.Context(), h, l, folder.FolderMark{Generation: 1}, true, fence)
		},
	} {
		b.sh(`mkdir -p "$2" && rm -f "$1/log" "$2/generation"`, tools, l.Dir)
		if err := mark(); err != nil {
			t.Fatal(err)
		}
		log := b.sh(`cat "$1/log"`, tools)
		flushed := strings.Index(log, "of="+l.Dir+"/generation.new conv=notrunc,fsync")
		named := strings.Index(log, "mv -f -- "+l.Dir+"/generation.new")
		if flushed < 0 || named < flushed {
			t.Errorf("%s: it did %q", what, log)
		}
		if got := b.sh(`cat "$1/generation"`, l.Dir); got != "generation 1\n" {
			t.Errorf("%s: it says %q", what, got)
		}
	}
}

// Somebody removed the session's folders. This must not lead to an empty snapshot from
// which the session would go on, but to an error that a person sees.
func TestASnapshotOfWhatIsGoneIsAnError(t *testing.T) {
	b := newBed(t, readyHost(t))
	k := b.worked("vanished")
	in := k.parking(1, "").TakeSnapshotInput
	one, err := snaps.Take(t.Context(), b.set.site, in, k.hides(), nil)
	if err != nil || one == nil {
		t.Fatalf("taken %+v, %v", one, err)
	}
	refused := func(what, dir string, err error) {
		t.Helper()
		if err := (kit.Failing{}).Failure(t.Context(), what, err); kindOfError(err) != protocol.ErrTypeFolderGone || !strings.Contains(err.Error(), dir+" is not on") {
			t.Errorf("%s: %v", what, err)
		}
	}
	next := k.parking(2, one.ID).TakeSnapshotInput
	for _, dir := range []string{k.layout.WorkDir, k.layout.CodexHome} {
		k.sh(`mv "$1" "$1.away"`, dir)
		_, err := snaps.Take(t.Context(), b.set.site, next, k.hides(), nil)
		refused("taken", dir, err)
		_, err = k.park(k.parking(3, one.ID))
		refused("parked", dir, err)
		k.sh(`mv "$1.away" "$1"`, dir)
	}
	// If no snapshot holds the work, only the conversation must be there.
	alone := next
	alone.Policy.Work = protocol.WorkNone
	k.sh(`mv "$1" "$1.away"`, k.layout.WorkDir)
	if got, err := snaps.Take(t.Context(), b.set.site, alone, k.hides(), nil); err != nil || got == nil {
		t.Errorf("taken of the conversation %+v, %v", got, err)
	}
	b.sh(sweep, k.layout.Dir)
	next.N = 4
	_, err = snaps.Take(t.Context(), b.set.site, next, k.hides(), nil)
	refused("taken of nothing", k.layout.Dir, err)
	// The snapshot of an earlier attempt is still returned.
	if got, err := snaps.Take(t.Context(), b.set.site, in, k.hides(), nil); err != nil || got == nil || got.ID != one.ID {
		t.Errorf("asked again: %+v, %v", got, err)
	}
}
