package activities

import (
	"context"
	"errors"
	"os"
	"path"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/activities/snaps"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
	"fairlead.dev/fairlead/snapshots"
)

// elsewhere returns another host for the same worker. It is another root folder on the
// same machine, which has codex but nothing of a session.
func (b *bed) elsewhere(name string) protocol.HostSpec {
	b.t.Helper()
	other := b.spec
	root, err := hostexec.Root(b.t.Context(), b.host(), b.spec)
	if err != nil {
		b.t.Fatal(err)
	}
	other.Name, other.Root = name, root+"-"+name
	b.sh(`mkdir -p "$2" && ln -s "$1/codex" "$2/codex"`, root, other.Root)
	b.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		b.host().Run(ctx, hostexec.Command{Script: `rm -rf -- "$1"`, Args: []string{other.Root}})
	})
	return other
}

// parking returns the input that a workflow gives to ParkSession.
func (k *talk) parking(n int, parent string) snaps.ParkSessionInput {
	in := snaps.ParkSessionInput{Incarnation: k.incarnation, Seq: k.state.Seq}
	in.Claim, in.Layout, in.Seed = k.next(), k.layout, k.seed
	in.Policy = snaps.SnapshotPolicy{Work: protocol.WorkFull}
	in.N, in.At, in.Parent = n, time.Now().Truncate(time.Second), parent
	in.ThreadID, in.CodexVersion, in.Turn, in.Cursor = k.state.ThreadID, k.state.CodexVersion, k.turn, k.state.Cursor
	in.Thread = conversation.ThreadSpec{CWD: k.layout.WorkDir, Sandbox: "danger-full-access", ApprovalPolicy: "on-request", Model: "gpt-5.5"}
	return in
}

func (k *talk) park(in snaps.ParkSessionInput) (snaps.ParkSessionResult, error) {
	hide, err := site.Hiding(k.t.Context(), k.set.site, in.Seed)
	if err != nil {
		return snaps.ParkSessionResult{}, err
	}
	out, err := places.ParkSession(k.t.Context(), k.set.Place.Site, in, 1, hide, nil)
	return out, kit.Failing{Hide: hide.All, Epoch: folder.EpochOf(in.Claim, 1)}.Failure(k.t.Context(), "park", err)
}

// parked parks the session and checks the result and the host.
func (k *talk) parked(n int, parent string) *snaps.SnapshotBrief {
	k.t.Helper()
	out, err := k.park(k.parking(n, parent))
	if err != nil || !out.Wiped || out.Snapshot == nil {
		k.t.Fatalf("parked %+v, %v", out, err)
	}
	if left := k.planted(); left != "" || marked(k.claim.Session) != 0 {
		k.t.Errorf("parked, and there are %s and %d processes", left, marked(k.claim.Session))
	}
	return out.Snapshot
}

// up prepares the session on a host as its next generation.
func (k *talk) up(on protocol.HostSpec, from snaps.RestoreSpec) (places.PrepareSessionResult, error) {
	k.claim.Host, k.spec = on, on
	k.claim.Generation++
	in := places.PrepareSessionInput{Claim: k.next(), Seed: k.seed, Sandbox: "danger-full-access", Restore: &from}
	out, err := k.prepare(in)
	if err == nil {
		k.layout, k.permissions = out.Layout, out.Permissions
		if again, aerr := k.prepare(in); aerr != nil || !reflect.DeepEqual(again, out) {
			k.t.Errorf("prepared again: %+v, %v; at first %+v", again, aerr, out)
		}
	}
	return out, err
}

func (k *talk) answers(text string) string {
	k.t.Helper()
	k.start()
	out := k.pump(conversation.TurnEnded, k.message(text))
	if out.Pump.Turn.Status != "completed" {
		k.t.Fatalf("turn %+v", out.Pump.Turn)
	}
	return out.Pump.Turn.FinalText
}

const wanderer = `
rules:
  - when: {turn: 1}
    steps:
      - - shell: 'echo one >made.txt; mkdir empty; ln -s nowhere dangling; chmod 750 made.txt'
      - say: "hello Ada"
  - when: {turn: 3}
    steps:
      - - shell: 'cat made.txt; echo three >>made.txt'
      - say: "I am in {{ .LastToolOutput }}"
  - reply: "first you said {{ .FirstUser }}, then {{ .LastUser }}"
`

// A session goes from one host to another and back. Each time, codex resumes the thread
// by its id, the model sees the history, and the files are as they were. Back on the
// first host, nothing of the older state is used.
func TestASessionGoesElsewhereAndBack(t *testing.T) {
	b := newBed(t, readyHost(t))
	first := b.spec
	second := b.elsewhere("second")
	k := b.prepared("wanderer", "", "danger-full-access", b.plantable(scriptedmodel.Serve(t, wanderer)))
	k.answers("I am Ada")
	one := k.parked(1, "")

	// Warm: the existing folder is used, and nothing is transferred.
	inode := func() string { return k.sh(`ls -di "$1/sessions"`, k.layout.CodexHome) }
	was := inode()
	out, err := k.up(first, snaps.RestoreSpec{Snapshot: one.ID, Warm: 1})
	if err != nil || out.Restored != folder.RestoredWarm || inode() != was {
		t.Fatalf("warm: %+v, %v", out, err)
	}
	if got := k.answers("and now?"); got != "first you said I am Ada, then and now?" {
		t.Errorf("the model saw %q", got)
	}
	two := k.parked(2, one.ID)
	// The folder here has two turns, and codex's index has them.
	k.sh(`: >"$1/of-two-turns"`, k.layout.CodexHome)
	left := k.layout

	out, err = k.up(second, snaps.RestoreSpec{Snapshot: two.ID, Warm: 2})
	if err != nil || out.Restored != folder.RestoredSnapshot || out.ThreadID != k.state.ThreadID || out.Layout.Dir == left.Dir {
		t.Fatalf("elsewhere: %+v, %v", out, err)
	}
	if got := k.sh(`cd "$1" && cat made.txt && stat -c %a made.txt && readlink dangling && ls -A`, k.layout.WorkDir); got != "one\n750\nnowhere\ndangling\nempty\nmade.txt\n" {
		t.Errorf("the work there is %q", got)
	}
	if got := k.answers("where are you?"); !strings.Contains(got, "one") {
		t.Errorf("it is somewhere else: %q", got)
	}
	three := k.parked(3, two.ID)

	// Back: the folder there is older than the thread, and is not used.
	out, err = k.up(first, snaps.RestoreSpec{Snapshot: three.ID, Warm: 3})
	if err != nil || out.Restored != folder.RestoredSnapshot || out.Left != "" {
		t.Fatalf("back: %+v, %v", out, err)
	}
	if got := k.sh(`ls "$1"; cat "$2/made.txt"`, k.layout.CodexHome, k.layout.WorkDir); strings.Contains(got, "of-two-turns") || !strings.HasSuffix(got, "one\nthree\n") {
		t.Errorf("it works in what is older: %q", got)
	}
	thread := k.state.ThreadID
	if got := k.answers("who am I?"); got != "first you said I am Ada, then who am I?" || k.state.ThreadID != thread {
		t.Errorf("the model saw %q in thread %s, which was %s", got, k.state.ThreadID, thread)
	}
	// There is one rollout, with all four turns.
	rollouts := k.sh(`cd "$1/sessions" && find . -type f | wc -l; cat */*/*/rollout-*.jsonl`, k.layout.CodexHome)
	if !strings.HasPrefix(strings.TrimSpace(rollouts), "1\n") {
		t.Errorf("there are rollouts: %.10s", rollouts)
	}
	for _, said := range []string{"I am Ada", "and now?", "where are you?", "who am I?"} {
		if !strings.Contains(rollouts, said) {
			t.Errorf("%q is not in the rollout", said)
		}
	}
	k.fork(first, two)
}

// fork goes on from an older snapshot as another session.
func (k *talk) fork(on protocol.HostSpec, from *snaps.SnapshotBrief) {
	k.t.Helper()
	f := &talk{bed: k.bed, claim: protocol.Claim{Session: "forked", Generation: 0}, seed: k.seed}
	k.t.Cleanup(f.kill)
	if _, err := f.up(on, snaps.RestoreSpec{Snapshot: from.ID}); kindOfError(err) != protocol.ErrTypeBadInput {
		k.t.Errorf("another session's snapshot was taken for its own: %v", err)
	}
	out, err := f.up(on, snaps.RestoreSpec{Snapshot: from.ID, Fork: true})
	if err != nil || out.ThreadID != k.state.ThreadID || out.Layout.Dir == k.layout.Dir {
		k.t.Errorf("forked: %+v, %v", out, err)
	}
	if got := f.sh(`cat "$1/made.txt"`, f.layout.WorkDir); got != "one\n" {
		k.t.Errorf("the fork's work is %q", got)
	}
}

// A dyingPool is the pool of a worker that stops working after a number of requests to
// its host.
type dyingPool struct {
	site.HostPool
	left atomic.Int64
}

type dyingHost struct {
	hostexec.Host
	pool *dyingPool
}

var errDied = errors.New("the worker died")

func (p *dyingPool) Host(spec protocol.HostSpec) (hostexec.Host, error) {
	h, err := p.HostPool.Host(spec)
	return &dyingHost{h, p}, err
}

func (h *dyingHost) Run(ctx context.Context, c hostexec.Command) (hostexec.Result, error) {
	if h.pool.left.Add(-1) < 0 {
		return hostexec.Result{}, errDied
	}
	return h.Host.Run(ctx, c)
}

func (h *dyingHost) Start(ctx context.Context, c hostexec.Command) (hostexec.Stream, error) {
	if h.pool.left.Add(-1) < 0 {
		return nil, errDied
	}
	return h.Host.Start(ctx, c)
}

// dies gives the bed's worker a dyingPool.
func (b *bed) dies() *dyingPool {
	p := &dyingPool{HostPool: b.pool}
	b.set.site.Pool = p
	b.t.Cleanup(func() { p.left.Store(1 << 40) })
	return p
}

// worked returns a session that has a thread and did some work, without codex.
func (b *bed) worked(id string) *talk {
	k := b.prepared(id, "", "danger-full-access", b.plantable(scriptedmodel.Serve(b.t, `rules: []`)))
	k.state.ThreadID = "01900000-0000-7000-8000-000000000001"
	k.sh(`mkdir -p "$1/sessions/2026/11/22" && echo '{"type":"session_meta"}' >"$1/sessions/2026/11/22/rollout-x.jsonl"
echo precious >"$2/work.txt"`, k.layout.CodexHome, k.layout.WorkDir)
	return k
}

// ParkSession is killed after each step, and tried again. Everything that is wiped is
// in the store by then, and the final result is the same as without a kill.
func TestParkingKilledAnywhereLosesNothing(t *testing.T) {
	b := newBed(t, readyHost(t))
	k := b.worked("parker")
	k.job()
	in := k.parking(1, "")
	pool := b.dies()
	for step := int64(0); ; step++ {
		pool.left.Store(step)
		out, err := k.park(in)
		pool.left.Store(1 << 40)
		gone := k.planted() == ""
		_, kept := snapshots.Read(t.Context(), b.store, snaps.SnapshotID("parker", in.At, 1, 1))
		if gone && kept != nil {
			t.Fatalf("after %d steps the credential is gone, and there is no snapshot: %v", step, kept)
		}
		if err == nil {
			if !gone || out.Snapshot == nil || marked("parker") != 0 {
				t.Errorf("parked %+v", out)
			}
			if step < 6 {
				t.Errorf("only %d steps: nothing was tried", step)
			}
			break
		}
		if !errors.Is(err, errDied) && !strings.Contains(err.Error(), errDied.Error()) {
			t.Fatalf("after %d steps: %v", step, err)
		}
	}
	if files := b.exported(snaps.SnapshotID("parker", in.At, 1, 1)); files["work/work.txt"] != "precious\n" || len(files["rollouts/sessions/2026/11/22/rollout-x.jsonl"]) == 0 {
		t.Errorf("kept: %v", files)
	}
	if out, err := k.park(in); err != nil || out.Snapshot == nil {
		t.Errorf("parked again: %+v, %v", out, err)
	}
	// Somebody removed the folder. Its snapshot still counts.
	b.sh(sweep, k.layout.Dir)
	if out, err := k.park(in); err != nil || out.Snapshot == nil {
		t.Errorf("parked with the folder gone: %+v, %v", out, err)
	}
	in.N = 2
	if out, err := k.park(in); kindOfError(err) != protocol.ErrTypeFolderGone {
		t.Errorf("parked what is not there: %+v, %v", out, err)
	}
}

// The same holds for PrepareSession: the session never works in half of a snapshot.
func TestRestoringKilledAnywhereIsWholeInTheEnd(t *testing.T) {
	b := newBed(t, readyHost(t))
	k := b.worked("returner")
	one := k.parked(1, "")
	other := b.elsewhere("returned")
	pool := b.dies()
	in := places.PrepareSessionInput{Claim: k.claim, Seed: k.seed, Sandbox: "danger-full-access", Restore: &snaps.RestoreSpec{Snapshot: one.ID}}
	in.Claim.Host, in.Claim.Generation = other, 2
	k.spec = other
	for step := int64(0); ; step++ {
		in.Claim.Pump++
		pool.left.Store(step)
		out, err := k.prepare(in)
		pool.left.Store(1 << 40)
		if err == nil {
			k.layout, k.claim = out.Layout, in.Claim
			break
		}
		if !strings.Contains(err.Error(), errDied.Error()) {
			t.Fatalf("after %d steps: %v", step, err)
		}
	}
	if got := k.sh(`cat "$1/work.txt" "$2"/sessions/2026/11/22/rollout-x.jsonl`, k.layout.WorkDir, k.layout.CodexHome); got != "precious\n{\"type\":\"session_meta\"}\n" {
		t.Errorf("restored %q", got)
	}
	if k.planted() == "" {
		t.Error("there is no credential")
	}
}

// If the store cannot be written, nothing is wiped, and the session is not parked.
func TestNothingIsWipedWhileTheStoreIsAway(t *testing.T) {
	b := newBed(t, readyHost(t))
	k := b.worked("kept")
	in := k.parking(1, "")
	dir := strings.TrimPrefix(b.store.URL(), "file://")
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	if out, err := k.park(in); kindOfError(err) != protocol.ErrTypeStore && kindOfError(err) != protocol.ErrTypeSeed || out.Wiped {
		t.Errorf("parked without a store: %+v, %v", out, err)
	}
	if k.planted() == "" || k.sh(`cat "$1/work.txt"`, k.layout.WorkDir) != "precious\n" {
		t.Error("something went although nothing was kept")
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	if out, err := k.park(in); err != nil || !out.Wiped || out.Snapshot == nil {
		t.Errorf("parked %+v, %v", out, err)
	}
}

// A folder is not used if somebody worked in it after it was parked, or if no snapshot
// is known to have its generation. It is kept in a snapshot before it is removed.
func TestAFolderThatIsNotAsItWasLeftIsKeptAndNotUsed(t *testing.T) {
	b := newBed(t, readyHost(t))
	k := b.worked("stranger")
	one := k.parked(1, "")
	k.sh(`echo later >>"$1/work.txt"`, k.layout.WorkDir)
	k.job() // a process that none of our activities started
	out, err := k.up(k.spec, snaps.RestoreSpec{Snapshot: one.ID, Warm: 1})
	if err != nil || out.Restored != folder.RestoredSnapshot || out.Left == "" || marked("stranger") != 0 {
		t.Fatalf("up: %+v, %v", out, err)
	}
	if got := k.sh(`cat "$1/work.txt"`, k.layout.WorkDir); got != "precious\n" {
		t.Errorf("the work is %q", got)
	}
	if m, err := snapshots.Read(t.Context(), b.store, out.Left); err != nil || !m.Left || b.exported(out.Left)["work/work.txt"] != "precious\nlater\n" {
		t.Errorf("what was there is kept as %+v, %v", m, err)
	}
	// The host was lost while the session worked there, so the session was never
	// parked. The host came back later.
	k.sh(`echo unsaved >"$1/work.txt"`, k.layout.WorkDir)
	out, err = k.up(k.spec, snaps.RestoreSpec{Snapshot: one.ID})
	if err != nil || out.Restored != folder.RestoredSnapshot || out.Left == "" || b.exported(out.Left)["work/work.txt"] != "unsaved\n" {
		t.Errorf("back on a host that was lost: %+v, %v", out, err)
	}
	// A restore that fails changes nothing.
	k.sh(`echo again >"$1/work.txt"`, k.layout.WorkDir)
	if _, err := k.up(k.spec, snaps.RestoreSpec{Snapshot: snaps.SnapshotID("stranger", time.Now(), 1, 9)}); kindOfError(err) != protocol.ErrTypeSnapshot {
		t.Errorf("restored from nothing: %v", err)
	}
	if got := k.sh(`cat "$1/work.txt"`, k.layout.WorkDir); got != "again\n" {
		t.Errorf("the work went for nothing: %q", got)
	}
}

// A message came just after the session was parked. The session keeps its host and goes
// on in the same generation. From then on, the folder does not count as parked.
func TestASessionThatWasParkedInTheLastMomentGoesOn(t *testing.T) {
	b := newBed(t, readyHost(t))
	k := b.worked("moment")
	one := k.parked(1, "")
	again := places.PrepareSessionInput{Claim: k.next(), Seed: k.seed, Sandbox: "danger-full-access", Restore: &snaps.RestoreSpec{Snapshot: one.ID, Warm: 1}}
	out, err := k.prepare(again)
	if err != nil || out.Restored != folder.RestoredWarm || out.Left != "" || out.Layout != k.layout || k.planted() == "" {
		t.Fatalf("on again: %+v, %v", out, err)
	}
	// No snapshot has the new work, so the folder must not count as parked.
	k.sh(`echo more >>"$1/work.txt"`, k.layout.WorkDir)
	wiped, err := k.wipe(k.leave(false), knows(inquiry.SeedNow{Generation: 1, Ref: k.seed}))
	if err != nil || wiped.Archive == one.ID || b.exported(wiped.Archive)["work/work.txt"] != "precious\nmore\n" {
		t.Errorf("kept %+v, %v", wiped, err)
	}
}

// An older codex would show rollouts of a newer one without their items.
func TestAnOlderCodexIsRefused(t *testing.T) {
	b := newBed(t, readyHost(t))
	k := b.worked("newer")
	in := k.parking(1, "")
	in.CodexVersion = "9.0.0"
	out, err := k.park(in)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.up(k.spec, snaps.RestoreSpec{Snapshot: out.Snapshot.ID}); kindOfError(err) != protocol.ErrTypeCodexVersion {
		t.Errorf("gone on with an older codex: %v", err)
	}
}

// The secrets of all generations of the seed are masked, and so are those of the login
// that codex has just made. The manifest does not reveal the secrets that were searched
// for.
func TestASnapshotHoldsNoSecretOfAnyGeneration(t *testing.T) {
	b := newBed(t, readyHost(t))
	k := b.worked("masked")
	k.sh(`printf 'key %s\n' "$2" >"$1/copied.txt"`, k.layout.WorkDir, madeUpKey)
	got := k.parked(1, "")
	files := b.exported(got.ID)
	if want := "key " + strings.Repeat("*", len(madeUpKey)) + "\n"; files["work/copied.txt"] != want {
		t.Errorf("kept %q", files["work/copied.txt"])
	}
	for name, text := range files {
		if strings.Contains(text, madeUpKey) || strings.Contains(name, madeUpKey) || path.Base(name) == "auth.json" {
			t.Errorf("%s: %s", name, text)
		}
	}
	m, err := snapshots.Read(t.Context(), b.store, got.ID)
	if err != nil || len(m.Secrets) == 0 || m.Masked == 0 {
		t.Errorf("manifest %+v, %v", m, err)
	}
}

// A session comes back, with another member of its pool of seeds, to the host where it
// was parked. Its folder has unmasked secrets of the former seed that were printed.
// They must not get into a snapshot.
func TestWhoComesBackWithAnotherSeedBringsNoSecretOfTheFirstIntoTheStore(t *testing.T) {
	b := newBed(t, readyHost(t))
	k := b.worked("pooled")
	k.sh(`printf 'key %s\n' "$2" >"$1/copied.txt"`, k.layout.WorkDir, madeUpKey)
	one := k.parked(1, "")
	dir := t.TempDir()
	if err := os.WriteFile(path.Join(dir, "auth.json"), []byte(`{"OPENAI_API_KEY":"sk-made-up-of-a-second-member"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	bundle, err := seeds.Pack(dir)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := seeds.Save(t.Context(), b.store, "second", 1, bundle)
	if err != nil {
		t.Fatal(err)
	}
	k.seed = &protocol.SeedRef{Name: ref.Name, Generation: ref.Generation, Blob: ref.Blob, Digest: ref.Digest, Kind: string(ref.Kind)}
	out, err := k.up(k.spec, snaps.RestoreSpec{Snapshot: one.ID, Warm: 1})
	if err != nil || out.Restored != folder.RestoredSnapshot || out.Left != "" {
		t.Fatalf("up with another seed: %+v, %v", out, err)
	}
	two := k.parked(2, one.ID)
	for name, text := range b.exported(two.ID) {
		if strings.Contains(text, madeUpKey) {
			t.Errorf("%s: %s", name, text)
		}
	}
	if got, want := b.exported(two.ID)["work/copied.txt"], "key "+strings.Repeat("*", len(madeUpKey))+"\n"; got != want {
		t.Errorf("kept %q", got)
	}
}

func TestMarksAreReadAsTheyAreWritten(t *testing.T) {
	for _, m := range []folder.FolderMark{
		{Generation: 1},
		{Generation: 7, Dir: "/home/a b/ü", Seed: &protocol.SeedRef{Name: "team", Generation: 2, Blob: "b", Kind: "chatgpt", Epoch: 4}, Restored: folder.RestoredSnapshot, From: "s.snap-1", Left: "s.snap-2"},
		{Generation: 7, Brokered: true, Seed: &protocol.SeedRef{Name: "team"}, Parked: true, Snapshot: "s.snap-3"},
		{Generation: 7, Parked: true},
	} {
		got := folder.ParseMark(m.Text())
		if got.Text() != m.Text() || got.Generation != m.Generation || got.Dir != m.Dir || got.Parked != m.Parked || got.Snapshot != m.Snapshot || (m.Seed != nil) != (got.Seed != nil) || got.Seed != nil && *got.Seed != *m.Seed {
			t.Errorf("%+v was read as %+v", m, got)
		}
	}
	for _, torn := range []string{"", "generation", "generation 12", "generation x\n", "generation 0\n", "generation 5\nseed {\n", "generation 5\nparked s.sn"} {
		if m := folder.ParseMark(torn); m.Generation != 0 || m.Parked {
			t.Errorf("%q was read as %+v", torn, m)
		}
	}
}
