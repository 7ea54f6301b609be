package owned

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"fairlead.dev/fairlead/internal/store"
)

// A kept is a file store whose files can be made older, together with the owners that
// Temporal knows.
type kept struct {
	*store.Store
	t     *testing.T
	dir   string
	there map[Owner]bool
	deny  map[Owner]error
}

func newKept(t *testing.T) *kept {
	t.Helper()
	dir := t.TempDir()
	id, err := store.GenerateIdentity(filepath.Join(dir, "identity"))
	if err != nil {
		t.Fatal(err)
	}
	k := &kept{t: t, dir: filepath.Join(dir, "store"), there: map[Owner]bool{}, deny: map[Owner]error{}}
	k.Store, err = store.Open(t.Context(), store.Options{
		URL: "file://" + k.dir, Recipients: []age.Recipient{id.Recipient()}, Identities: []age.Identity{id},
	})
	if err == nil {
		err = Use(t.Context(), k, "ours")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return k
}

// later makes all files older.
func (k *kept) later(by time.Duration) {
	k.t.Helper()
	err := filepath.WalkDir(filepath.Join(k.dir, "owned"), func(path string, d os.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the whole folder was deleted
		}
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return os.Chtimes(path, time.Time{}, info.ModTime().Add(-by))
	})
	if err != nil {
		k.t.Fatal(err)
	}
}

func (k *kept) put(folder, family, text string) string {
	k.t.Helper()
	key, err := k.PutContent(k.t.Context(), In(folder, family), []byte(text))
	if err == nil {
		err = Kept(k.t.Context(), k, folder)
	}
	if err != nil {
		k.t.Fatal(err)
	}
	return key
}

func (k *kept) has(key string) bool {
	k.t.Helper()
	there, err := k.Exists(k.t.Context(), key)
	if err != nil {
		k.t.Fatal(err)
	}
	return there
}

func (k *kept) sweeping(st Blobs) Sweep {
	return Sweep{
		Store: st, Most: 100,
		Ask:   func(_ context.Context, o Owner) (bool, error) { return k.there[o], k.deny[o] },
		Alone: func(ctx context.Context) error { return Alone(ctx, k, "ours") },
	}
}

func (k *kept) sweep() Swept {
	k.t.Helper()
	out, err := k.sweeping(k).Run(k.t.Context())
	if err != nil {
		k.t.Fatal(err)
	}
	return out
}

func TestWhatNobodyNeedsGoesInTwoStepsADayApart(t *testing.T) {
	k := newKept(t)
	b, s := Owner{Batch, "night.ly"}, Owner{Session, "s-1"}
	folder, lives := b.NewFolder(), s.NewFolder()
	page, message := k.put(folder, Pages, "a page"), k.put(folder, Messages, "long")
	own := k.put(lives, Inputs, "a file")
	k.there[s] = true

	if out := k.sweep(); out.Folders != 2 || out.Marked+out.Deleted > 0 {
		t.Errorf("what was given just now, for a batch that has yet to begin: %+v", out)
	}
	k.later(Unbegun)
	k.there[b] = true
	if out := k.sweep(); out.Marked+out.Deleted > 0 || len(out.Problems) > 0 {
		t.Errorf("of a batch that Temporal knows: %+v", out)
	}
	k.there[b] = false
	if out := k.sweep(); out.Marked != 1 || out.Deleted > 0 {
		t.Errorf("the first time that it is gone: %+v", out)
	}
	k.later(Apart - time.Minute)
	if out := k.sweep(); out.Marked != 1 || out.Deleted > 0 {
		t.Errorf("within a day: %+v", out)
	}
	// The owner comes back, so the days before do not count.
	k.there[b] = true
	k.later(time.Hour)
	k.sweep()
	k.there[b] = false
	if out := k.sweep(); out.Marked != 1 || out.Deleted > 0 {
		t.Errorf("gone again: %+v", out)
	}
	k.later(Apart)
	if out := k.sweep(); out.Deleted != 1 || out.Blobs != 2 || out.Bytes == 0 || out.Marked+out.Left > 0 {
		t.Errorf("a day later: %+v", out)
	}
	if k.has(page) || k.has(message) || !k.has(own) {
		t.Error("what is left is not what is needed")
	}
	if all, err := k.List(t.Context(), prefix+folder); err != nil || len(all) > 0 {
		t.Errorf("of the folder there is %v, %v", all, err)
	}
	if err := Hold(t.Context(), k, s, page); !errors.Is(err, ErrGone) {
		t.Errorf("who comes to hold it now is told %v", err)
	}
}

// If the same content is stored again while the first copy is being deleted, it is a new
// blob, and an owner that begins with it keeps it.
func TestWhatIsGivenAgainBetweenMarkAndDeletionStays(t *testing.T) {
	k := newKept(t)
	gone, comes := Owner{Session, "s-1"}, Owner{Session, "s-2"}
	old := k.put(gone.NewFolder(), Inputs, "the same")
	k.later(Unbegun)
	k.sweep()
	k.later(Apart)
	again := k.put(comes.NewFolder(), Inputs, "the same")
	if out := k.sweep(); out.Deleted != 1 || k.has(old) || !k.has(again) {
		t.Errorf("%+v", out)
	}
	// A folder that was already marked and that another owner then holds stays too.
	schedule, fired := Owner{Schedule, "nightly"}, Owner{Session, "nightly-1"}
	given := k.put(schedule.NewFolder(), Messages, "long")
	k.later(Unbegun)
	k.sweep()
	k.later(Apart)
	if err := Hold(t.Context(), k, fired, given); err != nil {
		t.Fatal(err)
	}
	k.there[fired] = true
	k.later(2 * Unbegun)
	for range 3 {
		k.sweep()
		k.later(Apart)
	}
	if !k.has(given) {
		t.Error("what a session holds that lives went with the schedule")
	}
	delete(k.there, fired)
	k.sweep()
	k.later(Apart)
	k.sweep()
	if k.has(given) {
		t.Error("it stays when nobody holds it any more")
	}
}

func TestOfAnOwnerThatCannotBeAskedAllStays(t *testing.T) {
	b, s := Owner{Batch, "b"}, Owner{Session, "b-i1"}
	for what, deny := range map[string]Owner{"its owner": b, "who holds it": s} {
		k := newKept(t)
		key := k.put(b.NewFolder(), Pages, "a page")
		if err := Hold(t.Context(), k, s, key); err != nil {
			t.Fatal(err)
		}
		k.later(Unbegun)
		k.sweep()
		k.deny[deny] = errors.New("no answer")
		for range 3 {
			k.later(Apart)
			if out := k.sweep(); out.Deleted > 0 || len(out.Problems) != 1 || !strings.Contains(out.Problems[0], "no answer") {
				t.Errorf("%s does not answer: %+v", what, out)
			}
		}
		if !k.has(key) {
			t.Fatalf("%s does not answer, and it is gone", what)
		}
	}
}

// Nothing is deleted in a store that workers of another Temporal namespace use too. Blobs
// of a newer version are not deleted either.
func TestNothingOfStrangersIsDeleted(t *testing.T) {
	k := newKept(t)
	folder := Owner{Batch, "b"}.NewFolder()
	key := k.put(folder, Pages, "a page")
	strange := prefix + folder + "/later/x"
	for _, key := range []string{strange, prefix + "team.x.0123456789abcdef/pages/" + strings.Repeat("0", 64)} {
		if err := k.Put(t.Context(), key, nil); err != nil {
			t.Fatal(err)
		}
	}
	k.later(Unbegun)
	for range 3 {
		if out := k.sweep(); out.Deleted > 0 || len(out.Problems) == 0 {
			t.Errorf("%+v", out)
		}
		k.later(Apart)
	}
	if err := k.Delete(t.Context(), strange); err != nil {
		t.Fatal(err)
	}
	if err := Use(t.Context(), k, "another"); err != nil {
		t.Fatal(err)
	}
	if out := k.sweep(); out.Deleted > 0 || !strings.Contains(out.Problems[len(out.Problems)-1], "another namespace") || !k.has(key) {
		t.Errorf("%+v", out)
	}
}

// dies is a store that stops after some deletions.
type dies struct {
	*kept
	left int
}

func (d *dies) Delete(ctx context.Context, key string) error {
	if d.left--; d.left < 0 {
		return errKilled
	}
	return d.kept.Delete(ctx, key)
}

func TestASweepThatIsKilledIsFinishedByTheNext(t *testing.T) {
	for n := range 6 {
		k := newKept(t)
		b := Owner{Batch, "b"}
		folder := b.NewFolder()
		key := k.put(folder, Pages, "a page")
		k.put(folder, Pages, "another")
		if err := Hold(t.Context(), k, Owner{Session, "s"}, key); err != nil {
			t.Fatal(err)
		}
		k.later(Unbegun)
		k.sweep()
		k.later(Apart)
		if _, err := k.sweeping(&dies{k, n}).Run(t.Context()); (err != nil) != (n < 5) {
			t.Fatalf("killed after %d: %v", n, err)
		}
		if err := Hold(t.Context(), k, Owner{Session, "s2"}, key); !errors.Is(err, ErrGone) {
			t.Errorf("killed after %d: who comes is told %v", n, err)
		}
		if err := k.Delete(t.Context(), prefix+folder+"/"+held+"/session.s2"); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			k.sweep()
			k.later(Apart)
		}
		k.sweep()
		if all, err := k.List(t.Context(), prefix); err != nil || len(all) > 0 {
			t.Errorf("killed after %d: it leaves %v, %v", n, all, err)
		}
	}
}

func TestNoMoreIsDeletedAtATimeThanIsAllowed(t *testing.T) {
	k := newKept(t)
	for _, id := range []string{"a", "b", "c"} {
		k.put(Owner{Batch, id}.NewFolder(), Pages, "a page")
	}
	k.later(Unbegun)
	k.sweep()
	k.later(Apart)
	s := k.sweeping(k)
	s.Most = 2
	out, err := s.Run(t.Context())
	if err != nil || out.Deleted != 2 || out.Left != 1 {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestAFolderBelongsToOnePrincipal(t *testing.T) {
	const folder = "session.a.b-c.0123456789abcdef"
	anns, ok := FolderOf(folder, "ann")
	if owner, is := OwnerOf(anns); !ok || !is || owner != (Owner{Session, "a.b-c"}) {
		t.Fatalf("%s is of %v", anns, owner)
	}
	if again, ok := FolderOf(anns, "ann"); !ok || again != anns {
		t.Errorf("it is now %s, %v", again, ok)
	}
	for name, who := range map[string]string{anns: "bob", "session.a": "ann", anns + "0": "ann", anns + "-" + Tag("bob"): "bob"} {
		if f, ok := FolderOf(name, who); ok {
			t.Errorf("%s of %s is %s", name, who, f)
		}
	}
	key := In(anns, Inputs) + "/" + strings.Repeat("0", 64)
	if f, family, ok := Parse(key); !ok || f != anns || family != Inputs {
		t.Errorf("%s is of %s, %s", key, f, family)
	}
	if tag, ok := Uploader(key); !ok || tag != Tag("ann") {
		t.Errorf("%s is of %q", key, tag)
	}
	if f, ok := folderOf(key); !ok || f != anns {
		t.Errorf("a sweep sees %s", f)
	}
}

func TestOnlyBlobsInFoldersAreNamed(t *testing.T) {
	b := Owner{Batch, "night.0123456789abcdef"}
	folder := b.RunFolder("run")
	name := strings.Repeat("0", 64)
	good := In(folder, Messages) + "/" + name
	if f, family, ok := Parse(good); !ok || f != folder || family != Messages || !Is(good, Messages) || Is(good, Tokens) {
		t.Errorf("%s is %q of %q, %v", good, family, f, ok)
	}
	first, second := b.NewFolder(), b.NewFolder()
	if o, ok := OwnerOf(folder); !ok || o != b || folder == first || first == second || folder != b.RunFolder("run") {
		t.Errorf("%s is of %v, %v", folder, o, ok)
	}
	for _, bad := range []string{
		"", "messages/" + name, "seeds/team/1", good + "/x", good[:len(good)-1], In(folder, Messages) + "/../tokens/" + name,
		In("..", Messages) + "/" + name, In("session.s", Messages) + "/" + name, In(folder, "held") + "/" + name, In("seed.s.0123456789abcdef", Messages) + "/" + name, good + "\n",
	} {
		if _, _, ok := Parse(bad); ok || slices.ContainsFunc([]string{Pages, Results, Messages, Inputs, Tokens}, func(f string) bool { return Is(bad, f) }) {
			t.Errorf("%q is a blob", bad)
		}
	}
	if o := (Owner{"session", strings.Repeat("x", 64)}); o.Check() == nil {
		t.Error("an owner of a name that is too long")
	}
}
