package activities

import (
	"context"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/logins"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/activities/snaps"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
	"fairlead.dev/fairlead/snapshots"
)

// A session was parked and moved to another host. Its snapshot has the content of the
// folder that it left, so the folder is removed without another snapshot.
func TestAParkedFolderGoesWithoutAnotherSnapshot(t *testing.T) {
	b := newBed(t, readyHost(t))
	k := b.worked("parted")
	one := k.parked(1, "")
	out, err := k.wipe(k.leave(false), knows(inquiry.SeedNow{Generation: 1, Ref: k.seed}))
	if err != nil || !out.Wiped || !out.Removed || out.Archive != one.ID {
		t.Errorf("wiped %+v, %v", out, err)
	}
	all, err := snapshots.List(t.Context(), b.store, "parted")
	if err != nil || len(all) != 1 {
		t.Errorf("there are %d snapshots, %v", len(all), err)
	}
}

// Cleaning up after a session does not touch the session if it has come back to the
// same host. This holds also for a clean-up that began before.
func TestWhoCleansUpLeavesTheSessionAloneThatIsBack(t *testing.T) {
	b := newBed(t, readyHost(t))
	k := b.worked("returned")
	in := k.leave(false) // as generation 1, which was lost here
	ask := knows(inquiry.SeedNow{Generation: 1, Ref: k.seed})
	k.claim.Generation = 1
	if _, err := k.up(k.spec, snaps.RestoreSpec{}); err != nil {
		t.Fatal(err)
	}
	k.job()
	if out, err := k.wipe(in, ask); err != nil || !out.Wiped || !out.Removed || len(out.Survivors) > 0 {
		t.Errorf("cleaned up: %+v, %v", out, err)
	}
	// A clean-up that looked before the session came back is refused by the host
	// itself.
	late := folder.FenceOf(folder.ClaimBehind(in.Claim, in.Generation), k.layout.Dir, 1)
	if err := folder.WriteMark(t.Context(), b.host(), k.layout, folder.FolderMark{Generation: 1}, false, late); kindOfError(kit.Failing{}.Failure(t.Context(), "mark", err)) != protocol.ErrTypeFenced {
		t.Errorf("a late one was let in: %v", err)
	}
	rec, err := logins.RecoverSeed(t.Context(), k.set.site, inquiry.RecoverSeedInput{Seed: *k.seed, Claim: folder.ClaimBehind(in.Claim, 1), Generation: 1}, 1, site.Secrets{})
	if err != nil || !rec.Absent || rec.Saved != nil {
		t.Errorf("recovered: %+v, %v", rec, err)
	}
	if k.planted() == "" || marked("returned") == 0 {
		t.Error("the session that is back was ended")
	}
}

// A host was lost with a login that codex had rotated there, and nobody fetched it. The
// session that comes back saves it before anything is removed, and works with that
// login. It leaves a login of another seed to that seed.
func TestALoginThatWasLeftIsSavedBeforeItsFolderGoes(t *testing.T) {
	b := newBed(t, readyHost(t))
	k, d := b.held("logged", nil)
	k.sh(`mkdir -p "$1/sessions/2026" && echo '{}' >"$1/sessions/2026/rollout-x.jsonl"`, k.layout.CodexHome)
	k.rewrite(login("acct-1", 1))
	got, err := snaps.Take(t.Context(), b.set.site, k.parking(1, "").TakeSnapshotInput, k.hides(), nil)
	if err != nil {
		t.Fatal(err)
	}
	auth := path.Join(k.layout.CodexHome, "auth.json")
	in := places.PrepareSessionInput{Claim: k.claim, Sandbox: "workspace-write", Restore: &snaps.RestoreSpec{Snapshot: got.ID}}
	in.Claim.Generation, in.Claim.Pump = 2, 1
	b.set.site.Ask = func(context.Context, string) (inquiry.SeedNow, bool, error) { return d.state(), true, nil }
	if _, err := k.prepare(in); kindOfError(err) != protocol.ErrTypeLoginUnsaved || k.sh(`cat "$1"`, auth) != login("acct-1", 1) {
		t.Errorf("a login that its seed waits for went: %v", err)
	}
	in.Seed = k.seed
	out, err := k.prepare(in)
	if err != nil || out.Restored != folder.RestoredSnapshot {
		t.Fatalf("back: %+v, %v", out, err)
	}
	k.savedIs(d, 1)
	if k.sh(`cat "$1"`, auth) != login("acct-1", 1) {
		t.Error("it is to work with a login that is spent")
	}
	k.claim.Generation = 2
}

// hides returns the secrets that a worker which has just started knows.
func (k *talk) hides() site.Secrets {
	k.t.Helper()
	hide, err := site.Hiding(k.t.Context(), k.set.site, k.seed)
	if err != nil {
		k.t.Fatal(err)
	}
	return hide
}

// Work that cannot be kept in a snapshot stays where it is. The credential is wiped.
func TestALeftoverThatIsTooLargeStays(t *testing.T) {
	b := newBed(t, readyHost(t))
	b.set.site.Snapshots.MaxBytes = 10
	k := b.worked("large")
	out, err := k.wipe(k.leave(false), knows(inquiry.SeedNow{Generation: 1, Ref: k.seed}))
	if err != nil || !out.Wiped || out.Removed || out.Kept != k.layout.Dir || out.Archive != "" {
		t.Errorf("wiped %+v, %v", out, err)
	}
	if got := k.sh(`cat "$1/work.txt"`, k.layout.WorkDir); got != "precious\n" || k.planted() != "" {
		t.Errorf("the work is %q, and there is %s", got, k.planted())
	}
	in := k.parking(1, "")
	if _, err := snaps.Take(t.Context(), b.set.site, in.TakeSnapshotInput, site.Secrets{}, nil); kindOfError(kit.Failing{}.Failure(t.Context(), "take", err)) != protocol.ErrTypeQuota {
		t.Errorf("taken although it is too large: %v", err)
	}
}

// A person's own folder is kept as the policy says, and never removed. Our root folder
// inside it does not belong to the session's work.
func TestAPersonsFolderIsKeptByPolicyAndStays(t *testing.T) {
	b := newBed(t, readyHost(t))
	dir := b.sh(`mkdir -p "$HOME/mine/src" && echo mine >"$HOME/mine/src/a" && printf %s "$HOME/mine"`)
	b.spec.Name, b.spec.Root = "inside", dir+"/.ours"
	b.sh(`mkdir -p "$2" && ln -s "$1/.fairlead/codex" "$2/codex"`, b.sh(`printf %s "$HOME"`), b.spec.Root)
	k := b.prepared("guest", dir, "danger-full-access", b.plantable(scriptedmodel.Serve(t, `rules: []`)))
	k.state.ThreadID = "01900000-0000-7000-8000-000000000001"
	k.sh(`mkdir -p "$1/sessions/2026" && echo '{}' >"$1/sessions/2026/rollout-x.jsonl"`, k.layout.CodexHome)
	one := k.parked(1, "")
	files := b.exported(one.ID)
	if files["work/src/a"] != "mine\n" {
		t.Errorf("kept %v", files)
	}
	for name := range files {
		if len(name) > 10 && name[:10] == "work/.ours" {
			t.Errorf("our own %s is kept as the person's", name)
		}
	}
	out, err := k.up(k.spec, snaps.RestoreSpec{Snapshot: one.ID, Warm: 1})
	if err != nil || out.Restored != folder.RestoredWarm || out.Layout.WorkDir != dir || out.Layout.OwnWork {
		t.Errorf("warm: %+v, %v", out, err)
	}
	// A restore never overwrites the person's folder.
	b.sh(`echo changed >"$1/src/a"`, dir)
	out, err = k.up(k.spec, snaps.RestoreSpec{Snapshot: one.ID})
	if err != nil || !out.Layout.OwnWork || b.sh(`cat "$1/src/a" "$2/src/a"`, dir, out.Layout.WorkDir) != "changed\nmine\n" {
		t.Errorf("restored: %+v, %v", out, err)
	}
}

// A key that was replaced is still masked in texts that were printed before.
func TestAReplacedKeyIsMaskedToo(t *testing.T) {
	b := newBed(t, readyHost(t))
	k := b.worked("replaced")
	const newer = "sk-made-up-replaced-0Zb4kQ"
	bundle, err := seeds.Load(t.Context(), b.store, k.seed.Blob)
	if err != nil {
		t.Fatal(err)
	}
	next, err := bundle.WithAuth([]byte(`{"OPENAI_API_KEY":"` + newer + `"}`))
	if err != nil {
		t.Fatal(err)
	}
	ref, err := seeds.Save(t.Context(), b.store, k.seed.Name, 2, next)
	if err != nil {
		t.Fatal(err)
	}
	k.seed = &protocol.SeedRef{Name: ref.Name, Generation: ref.Generation, Blob: ref.Blob, Digest: ref.Digest, Kind: string(ref.Kind)}
	k.sh(`printf '%s %s\n' "$2" "$3" >"$1/both.txt"`, k.layout.WorkDir, madeUpKey, newer)
	if got, want := b.exported(k.parked(1, "").ID)["work/both.txt"], "************************** ************************** \n"; len(got) != len(madeUpKey)+len(newer)+2 || got == want || !onlyStars(got) {
		t.Errorf("kept %q", got)
	}
}

func onlyStars(s string) bool {
	for _, c := range s {
		if c != '*' && c != ' ' && c != '\n' {
			return false
		}
	}
	return true
}

// beats runs an activity of Snapshots, whose heartbeats report its progress.
func (b *bed) beats(name string, in any) {
	b.t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetTestTimeout(patience)
	b.set.Register(env)
	var said []string
	env.SetOnActivityHeartbeatListener(func(_ *activity.Info, details converter.EncodedValues) {
		var p protocol.SnapshotsProgress
		if err := details.Get(&p); err != nil {
			b.t.Error(err)
		}
		said = append(said, p.Step)
	})
	if _, err := env.ExecuteActivity(name, in); err != nil {
		b.t.Fatal(err)
	}
	if len(said) == 0 || slices.Contains(said, "") {
		b.t.Errorf("the heartbeats of %s say %q", name, said)
	}
}

// Retention drops snapshots, pruning frees their data, and checking finds damage. A
// session's newest snapshot always stays.
func TestSnapshotsArePrunedAndChecked(t *testing.T) {
	b := newBed(t, readyHost(t))
	k := b.worked("pruned")
	var ids []string
	for n := 1; n <= 3; n++ {
		k.sh(`echo "$2" >"$1/work.txt"`, k.layout.WorkDir, string(rune('0'+n)))
		in := k.parking(n, "")
		in.At = time.Now().Add(time.Duration(n-4) * time.Hour).Truncate(time.Second)
		got, err := snaps.Take(t.Context(), b.set.site, in.TakeSnapshotInput, site.Secrets{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, got.ID)
	}
	var heard map[string]int64
	far := func(step string, done, _ int64) { heard[step] = max(heard[step], done) }
	heard = map[string]int64{}
	dry, err := snaps.PruneSnapshots(t.Context(), b.set.Snapshot.Site, protocol.PruneSnapshotsInput{Keep: 1, DryRun: true}, far)
	if err != nil || len(dry.Snapshots) != 2 {
		t.Errorf("would prune %+v, %v", dry, err)
	}
	out, err := snaps.PruneSnapshots(t.Context(), b.set.Snapshot.Site, protocol.PruneSnapshotsInput{MaxAge: time.Minute}, far)
	if err != nil || len(out.Snapshots) != 2 || out.Snapshots[0] != ids[0] || out.Snapshots[1] != ids[1] {
		t.Errorf("pruned %+v, %v; there were %v", out, err, ids)
	}
	if heard["finding what is needed"] == 0 {
		t.Errorf("of pruning was told %v", heard)
	}
	heard = map[string]int64{}
	seen, err := snaps.CheckSnapshots(t.Context(), b.set.Snapshot.Site, protocol.CheckSnapshotsInput{ReadData: true}, far)
	if err != nil || seen.Snapshots != 1 || seen.Chunks == 0 || seen.Packs == 0 || len(seen.Damaged) > 0 {
		t.Errorf("checked %+v, %v", seen, err)
	}
	if heard["reading packs"] != int64(seen.Packs) || heard["finding what is needed"] == 0 || heard["judging snapshots"] == 0 {
		t.Errorf("of checking %+v was told %v", seen, heard)
	}
	b.beats("PruneSnapshots", protocol.PruneSnapshotsInput{DryRun: true})
	b.beats("CheckSnapshots", protocol.CheckSnapshotsInput{})
	packs, err := b.store.List(t.Context(), "snapshots/packs/")
	if err != nil || len(packs) == 0 {
		t.Fatalf("%d packs, %v", len(packs), err)
	}
	for _, p := range packs {
		if err := b.store.Delete(t.Context(), p.Key); err != nil {
			t.Fatal(err)
		}
	}
	again := b.another()
	seen, err = snaps.CheckSnapshots(t.Context(), again.set.Snapshot.Site, protocol.CheckSnapshotsInput{}, far)
	if err != nil || len(seen.Damaged) != 1 || seen.Damaged[0] != ids[2] || len(seen.Problems) == 0 {
		t.Errorf("checked what is damaged: %+v, %v", seen, err)
	}
}

// A file that the host does not let us read is in no snapshot. So no activity may
// delete or park a folder that contains it, until the file can be read or a person
// gives it up.
func TestWorkThatMayNotBeReadIsNeverDeleted(t *testing.T) {
	b := newBed(t, readyHost(t))
	k := b.worked("guarded")
	k.sh(`mkdir "$1/shut" && echo mine >"$1/shut/deep" && echo mine >"$1/no.txt" && chmod 000 "$1/shut" "$1/no.txt"`, k.layout.WorkDir)
	refused := func(what string, err error) {
		t.Helper()
		if kindOfError(kit.Failing{}.Failure(t.Context(), what, err)) != protocol.ErrTypeUnreadable || !strings.Contains(err.Error(), "2 files or folders that may not be read: work/shut/, work/no.txt") {
			t.Errorf("%s: %v", what, err)
		}
		if got := k.sh(`cat "$1/work.txt"; [ -e "$1/no.txt" ] && [ -d "$1/shut" ] && echo there`, k.layout.WorkDir); got != "precious\nthere\n" {
			t.Fatalf("%s: the work is %q", what, got)
		}
	}
	// A snapshot that is taken while the session goes on is kept, and says what it
	// lacks.
	in := k.parking(1, "")
	got, err := snaps.Take(t.Context(), b.set.site, in.TakeSnapshotInput, k.hides(), nil)
	if err != nil || got.Unreadable != 2 || got.Lacks() == "" || b.exported(got.ID)["work/work.txt"] != "precious\n" {
		t.Errorf("taken %+v, %v", got, err)
	}
	_, err = k.park(k.parking(2, got.ID))
	refused("parked", err)
	for range 2 {
		_, err = k.close(k.closing())
		refused("closed", err)
	}
	if k.planted() == "" {
		t.Error("the credential of a session that goes on is gone")
	}
	_, err = k.up(k.spec, snaps.RestoreSpec{Snapshot: got.ID})
	refused("another generation came", err)

	leave := k.leave(false)
	left, err := k.wipe(leave, knows(inquiry.SeedNow{Generation: 1, Ref: k.seed}))
	if err != nil || !left.Wiped || left.Removed || left.Kept != k.layout.Dir {
		t.Errorf("cleaned up: %+v, %v", left, err)
	}
	k.sh(`cat "$1/work.txt" && chmod 700 "$1/shut" && chmod 600 "$1/no.txt"`, k.layout.WorkDir)
	leave.Claim.Pump++
	left, err = k.wipe(leave, knows(inquiry.SeedNow{Generation: 1, Ref: k.seed}))
	if err != nil || !left.Removed || b.exported(left.Archive)["work/shut/deep"] != "mine\n" {
		t.Errorf("cleaned up what can be read: %+v, %v", left, err)
	}
}

// A session whose work is excluded from snapshots parks, and later its folder is
// removed from that host. No snapshot has its work, so the work is kept before it is
// removed.
func TestWorkThatNoSnapshotWasToHoldIsKeptBeforeItsFolderGoes(t *testing.T) {
	b := newBed(t, readyHost(t))
	k := b.worked("alone")
	in := k.parking(1, "")
	in.Policy.Work = protocol.WorkNone
	parked, err := k.park(in)
	if err != nil || parked.Snapshot == nil {
		t.Fatalf("parked %+v, %v", parked, err)
	}
	if _, there := b.exported(parked.Snapshot.ID)["work/work.txt"]; there {
		t.Fatal("the work is in a snapshot that was not to hold it")
	}
	leave := k.leave(false)
	leave.Snapshot = &snaps.SnapshotSpec{Policy: snaps.SnapshotPolicy{Work: protocol.WorkNone}, Parent: parked.Snapshot.ID}
	out, err := k.wipe(leave, knows(inquiry.SeedNow{Generation: 1, Ref: k.seed}))
	if err != nil || !out.Removed || out.Archive == parked.Snapshot.ID || b.exported(out.Archive)["work/work.txt"] != "precious\n" {
		t.Errorf("cleaned up: %+v, %v", out, err)
	}
}

// A session in a person's folder that is too large for a snapshot closes, and its
// conversation is kept: the folder stays where it is. A session with a work folder
// of its own closes only with discard, and then loses only the work.
func TestWorkThatIsTooLargeIsNoReasonToLoseTheConversation(t *testing.T) {
	b := newBed(t, readyHost(t))
	b.set.site.Snapshots.MaxBytes = 100
	for _, dir := range []string{b.sh(`mkdir -p "$HOME/mine" && printf %s "$HOME/mine"`), ""} {
		k := b.prepared("close-"+map[bool]string{true: "own", false: "persons"}[dir == ""], dir, "danger-full-access", b.plantable(scriptedmodel.Serve(t, `rules: []`)))
		k.state.ThreadID = "01900000-0000-7000-8000-000000000001"
		k.sh(`mkdir -p "$1/sessions/2026" && echo '{}' >"$1/sessions/2026/rollout-x.jsonl"`, k.layout.CodexHome)
		k.sh(`head -c 1000 /dev/zero | tr '\0' x >"$1/large"`, k.layout.WorkDir)
		in := k.closing()
		in.Snapshot = &snaps.SnapshotSpec{Policy: snaps.SnapshotPolicy{Work: protocol.WorkFull}}
		if dir == "" {
			if _, err := k.close(in); err == nil || k.sh(`wc -c <"$1/large"`, k.layout.WorkDir) != "1000\n" {
				t.Fatalf("closed although its work is too large: %v", err)
			}
			in.Claim = k.next()
			in.Discard = true
		}
		out, err := k.close(in)
		if err != nil || !out.Removed || out.Archive == "" || (out.Problem != nil) != (dir == "") {
			t.Fatalf("%q: closed %+v, %v", dir, out, err)
		}
		if files := b.exported(out.Archive); files["rollouts/sessions/2026/rollout-x.jsonl"] != "{}\n" || files["work/large"] != "" {
			t.Errorf("%q: kept %q", dir, files)
		}
	}
}

// No snapshot has a whole machine in it, and no snapshot fails because the work folder
// is /.
func TestAWholeMachineIsInNoSnapshot(t *testing.T) {
	l := folder.LayoutOf("/srv/fairlead", "all")
	l.WorkDir, l.OwnWork = "/", false
	trees := snaps.Taking{TakeSnapshotInput: snaps.TakeSnapshotInput{Layout: l, SnapshotSpec: snaps.SnapshotSpec{Policy: snaps.SnapshotPolicy{Work: protocol.WorkFull}}}}.Trees()
	if len(trees) != 1 || trees[0].Name != snapshots.Rollouts {
		t.Errorf("kept would be %+v", trees)
	}
}

// The secrets of a seed that cannot be read are unknown. Even with Discard, work that
// may contain them is never stored in clear.
func TestDiscardingKeepsNoSecretThatNobodyKnowsAnyMore(t *testing.T) {
	b := newBed(t, readyHost(t))
	k := b.worked("unknown")
	k.sh(`printf 'key %s\n' "$2" >"$1/copied.txt"`, k.layout.WorkDir, madeUpKey)
	in := k.closing()
	in.Discard = true
	out, err := places.CloseSession(t.Context(), b.set.Place.Site, in, 1, site.Secrets{})
	if err != nil || !out.Wiped || !out.Removed || out.Archive != "" || out.Problem == nil || !strings.Contains(out.Problem.Message, "cannot be read") {
		t.Errorf("closed %+v, %v", out, err)
	}
	list, err := snapshots.List(t.Context(), b.store, "unknown")
	if err != nil || len(list) != 0 {
		t.Errorf("kept %+v, %v", list, err)
	}
}

func TestDiscardingGivesUpOnlyWhatMayNotBeRead(t *testing.T) {
	b := newBed(t, readyHost(t))
	k := b.worked("givenup")
	k.sh(`echo mine >"$1/no.txt" && chmod 000 "$1/no.txt"`, k.layout.WorkDir)
	in := k.closing()
	in.Discard = true
	out, err := k.close(in)
	if err != nil || !out.Removed || out.Problem == nil || !strings.Contains(out.Problem.Message, "work/no.txt") || b.exported(out.Archive)["work/work.txt"] != "precious\n" {
		t.Errorf("closed %+v, %v", out, err)
	}
}

// A person's own folder is not removed, so an unreadable file there does not keep a
// session from parking or closing.
func TestAPersonsUnreadableFileHoldsUpNobody(t *testing.T) {
	b := newBed(t, readyHost(t))
	dir := b.sh(`mkdir -p "$HOME/unread" && cd "$HOME/unread" && echo no >no.txt && chmod 000 no.txt && echo a >a && printf %s "$HOME/unread"`)
	k := b.prepared("visitor", dir, "danger-full-access", b.plantable(scriptedmodel.Serve(t, `rules: []`)))
	k.state.ThreadID = "01900000-0000-7000-8000-000000000001"
	k.sh(`mkdir -p "$1/sessions/2026" && echo '{}' >"$1/sessions/2026/rollout-x.jsonl"`, k.layout.CodexHome)
	if one := k.parked(1, ""); one.Unreadable != 1 || !strings.Contains(one.Lacks(), "work/no.txt") {
		t.Errorf("parked as %+v", one)
	}
	if out, err := k.close(k.closing()); err != nil || !out.Removed || b.sh(`ls "$1"`, dir) != "a\nno.txt\n" {
		t.Errorf("closed %+v, %v", out, err)
	}
}

// A work folder that git restored lacks the files that the policy leaves out. Each
// PrepareSession says that it differs.
func TestARestoredFolderSaysInWhatItDiffers(t *testing.T) {
	b := newBed(t, readyHost(t))
	k := b.worked("differing")
	k.sh(`cd "$1" && git init -q && git remote add origin "$2" && git fetch -q && git checkout -q -B main origin/main && i=0 &&
while [ $i -lt 12 ]; do echo no >"left out $i" && i=$((i+1)); done`, k.layout.WorkDir, upstream(t))
	in := k.parking(1, "")
	in.Policy = snaps.SnapshotPolicy{Work: protocol.WorkGit, Exclude: []string{"left*"}}
	got, err := snaps.Take(t.Context(), b.set.site, in.TakeSnapshotInput, k.hides(), nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := k.up(b.elsewhere("differs"), snaps.RestoreSpec{Snapshot: got.ID}) // prepares twice
	if err != nil || !strings.HasPrefix(out.Differs, "its status was: ? left out 0; ") || !strings.HasSuffix(out.Differs, "; and 2 more") || strings.Count(out.Differs, ";") != 10 {
		t.Errorf("restored %+v, %v", out, err)
	}
}

// upstream serves a git repository over the network, and returns its address.
func upstream(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	made := exec.Command("sh", "-c", `export HOME=$PWD GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
git init -q -b main seed && cd seed && echo a >a && git add a && git commit -qm one && git clone -q --bare . ../up.git`)
	made.Dir = root
	if out, err := made.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	url, _ := hosttest.ServeGit(t, root)
	return url + "/up.git"
}
