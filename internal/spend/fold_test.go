package spend

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/store"
)

// later is when the cells of noon may be folded.
var later = noon.Add(foldAfter + quiet)

// aged has the cells of so many processes that died at noon, each with 10 tokens, and the time at
// which they can be folded.
func aged(t *testing.T, processes int) (*memory, *clock, int64) {
	t.Helper()
	c := &clock{at: noon}
	m := &memory{at: map[string][]byte{}, written: map[string]time.Time{}, now: c.now}
	die(t, m, c, processes)
	c.set(later)
	return m, c, int64(10 * processes)
}

// die leaves cells of processes that died now, each with 10 tokens.
func die(t *testing.T, m *memory, c *clock, processes int) {
	t.Helper()
	for range processes {
		key := team.prefix() + "all/" + strings.ToLower(rand.Text()) + "." + week(c.now()).Format(time.DateOnly)
		if err := m.Put(t.Context(), key, []byte(`{"tokens":10}`)); err != nil {
			t.Fatal(err)
		}
	}
}

// foldIn folds all that can be folded.
func foldIn(t *testing.T, blobs Blobs, c *clock) {
	t.Helper()
	process(blobs, c).foldAll(t.Context(), team)
}

// earlier counts an account as earlier versions of Fairlead do.
func earlier(t *testing.T, m *memory) (n int64, cells int) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, data := range m.at {
		var c cell
		if err := json.Unmarshal(data, &c); err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		n += c.Tokens
	}
	return n, len(m.at)
}

func wantFolded(t *testing.T, what string, m *memory, c *clock, want int64, cells int) {
	t.Helper()
	if got := used(t, process(m, c), Ever).Tokens; got != want {
		t.Errorf("%s: %d tokens count as used, want %d", what, got, want)
	}
	if got, n := earlier(t, m); got != want || n != cells {
		t.Errorf("%s: an earlier version counts %d tokens in %d cells, want %d in %d", what, got, n, want, cells)
	}
}

func TestCellsOfDeadProcessesBecomeOne(t *testing.T) {
	m, c, want := aged(t, foldMost+40)
	// The next request begins it.
	l := process(m, c)
	mustTake(t, l, Limits{Tokens: 100_000}, Amount{Tokens: 20}).End(Amount{Tokens: 7})
	eventually(t, func() bool { _, n := earlier(t, m); return n == 2 && !l.folding.Load() }, "the cells stay")
	l.Close(t.Context())
	wantFolded(t, "folded", m, c, want+7, 2)
	// With few cells there is nothing to do, and later ones join.
	foldIn(t, m, c)
	wantFolded(t, "again", m, c, want+7, 2)
	for range foldFrom {
		l := process(m, c)
		mustTake(t, l, Limits{}, Amount{Tokens: 20}).End(Amount{Tokens: 3})
		l.Close(t.Context())
	}
	c.set(later.Add(foldAfter + quiet))
	foldIn(t, m, c)
	wantFolded(t, "the next month", m, c, want+7+3*foldFrom, 1)
}

func TestCellsThatMayBeWrittenAreNotFolded(t *testing.T) {
	m, c, want := aged(t, 2*foldFrom)
	for _, at := range []time.Time{noon, week(noon).Add(foldAfter - time.Second)} {
		c.set(at)
		foldIn(t, m, c)
		wantFolded(t, at.String(), m, c, want, 2*foldFrom)
	}
	// The clock of the one that wrote them was slow: the store says when that was.
	c.set(later)
	for key := range m.at {
		m.written[key] = later.Add(-quiet + time.Second)
	}
	foldIn(t, m, c)
	wantFolded(t, "written lately", m, c, want, 2*foldFrom)
}

// A mortal store dies at one of its writes, before or after it.
type mortal struct {
	Blobs
	left  int
	after bool
	hung  func() // instead of dying
}

var errDead = errors.New("killed")

func (s *mortal) dies(do func() error) error {
	if s.left--; s.left == 0 && s.hung != nil {
		s.hung()
		return do()
	}
	if s.left < 0 || s.left == 0 && !s.after {
		return errDead
	}
	err := do()
	if s.left == 0 {
		return errDead
	}
	return err
}

func (s *mortal) CreateOnce(ctx context.Context, key string, data []byte) error {
	return s.dies(func() error { return s.Blobs.CreateOnce(ctx, key, data) })
}

func (s *mortal) Delete(ctx context.Context, key string) error {
	return s.dies(func() error { return s.Blobs.Delete(ctx, key) })
}

func TestAFoldThatIsKilledNeitherLosesNorDoubles(t *testing.T) {
	const processes = 2*foldFrom + 3
	for step := 1; ; step++ {
		done := false
		for _, after := range []bool{false, true} {
			what := fmt.Sprintf("step %d, after it %v", step, after)
			m, c, want := aged(t, processes)
			// There is a fold from before, which the next one takes the place of.
			foldIn(t, m, c)
			die(t, m, c, processes)
			c.set(later.Add(foldAfter + quiet))
			dying := &mortal{Blobs: m, left: step, after: after}
			foldIn(t, dying, c)
			if got := used(t, process(m, c), Ever).Tokens; got != 2*want {
				t.Fatalf("%s: %d tokens count as used, want %d", what, got, 2*want)
			}
			done = dying.left > 0
			foldIn(t, m, c)
			wantFolded(t, what, m, c, 2*want, 1)
		}
		if done {
			return
		}
	}
}

// A worker was stopped in the middle of a fold and goes on after others have folded, too.
func TestAFoldThatGoesOnMuchLaterChangesNothing(t *testing.T) {
	for step := 1; step <= foldFrom+2; step++ {
		m, c, want := aged(t, 2*foldFrom)
		slow := &mortal{Blobs: m, left: step}
		slow.hung = func() {
			for range 3 {
				die(t, m, c, foldFrom)
				c.set(c.now().Add(foldAfter + quiet))
				foldIn(t, m, c)
			}
		}
		foldIn(t, slow, c)
		foldIn(t, m, c)
		wantFolded(t, fmt.Sprintf("step %d", step), m, c, want+3*10*foldFrom, 1)
	}
}

// Everybody who counts sees the same, whatever is folded at the moment.
func TestWhoeverCountsWhileOthersFoldSeesTheSame(t *testing.T) {
	m, c, want := aged(t, 150)
	real := realStore(t)
	for key, data := range m.at {
		if err := real.Put(t.Context(), key, data); err != nil {
			t.Fatal(err)
		}
	}
	for name, blobs := range map[string]Blobs{"in memory": m, "in a folder": real} {
		at := &clock{at: c.now()}
		if name == "in a folder" {
			at.set(time.Now().Add(foldAfter + quiet)) // its cells were written now
		}
		var working, reading sync.WaitGroup
		var over atomic.Bool
		for range 3 {
			working.Go(func() {
				for range 3 {
					process(blobs, at).foldAll(t.Context(), team)
				}
			})
		}
		for range 2 {
			reading.Go(func() {
				for !over.Load() {
					got, err := process(blobs, at).Used(t.Context(), team, Ever)
					if errors.Is(err, errMoved) {
						continue // more folds than tries
					}
					if err != nil || got.Tokens != want {
						t.Errorf("%s: %d tokens count as used, want %d: %v", name, got.Tokens, want, err)
						return
					}
				}
			})
		}
		working.Wait()
		over.Store(true)
		reading.Wait()
		foldIn(t, blobs, at)
		left, err := blobs.List(t.Context(), Prefix)
		if err != nil || len(left) != 1 {
			t.Errorf("%s: %d cells are left: %v", name, len(left), err)
		}
	}
}

// A request is under way until its process's cell is folded.
func TestAProcessThatWakesUpAfterItsCellWasFoldedCountsOnce(t *testing.T) {
	m, c, want := aged(t, foldFrom)
	c.set(noon)
	asleep := process(m, c)
	h := mustTake(t, asleep, Limits{Tokens: 6400}, Amount{Tokens: 500})
	c.set(later)
	foldIn(t, m, c)
	reserved := int64(500 + 100)
	wantFolded(t, "asleep", m, c, want+reserved, 1)
	if err := h.Grow(t.Context(), Amount{Tokens: 5000}); !errors.Is(err, errLate) {
		t.Errorf("it grows: %v", err)
	}
	h.End(Amount{Tokens: 900}) // 300 more than it had reserved
	wantFolded(t, "awake", m, c, want+900, 2)
	mustTake(t, asleep, Limits{}, Amount{Tokens: 20}).End(Amount{Tokens: 5})
	asleep.Close(t.Context())
	wantFolded(t, "at work", m, c, want+905, 2)
}

// A write that was under way all the time brings a deleted cell back.
func TestALateWriteCountsOnlyWhatItAdds(t *testing.T) {
	m, c, want := aged(t, foldFrom)
	var key string
	for key = range m.at {
		break
	}
	foldIn(t, m, c)
	for _, late := range []int64{25, 8} {
		if err := m.Put(t.Context(), key, fmt.Appendf(nil, `{"tokens":%d}`, late)); err != nil {
			t.Fatal(err)
		}
		if got := used(t, process(m, c), Ever).Tokens; got != want+max(0, late-10) {
			t.Errorf("%d tokens count as used after a late write of %d, want %d", got, late, want+max(0, late-10))
		}
	}
	// It joins the next fold, with others.
	if err := m.Put(t.Context(), key, []byte(`{"tokens":25}`)); err != nil {
		t.Fatal(err)
	}
	die(t, m, c, foldFrom)
	c.set(later.Add(foldAfter + quiet))
	foldIn(t, m, c)
	wantFolded(t, "folded again", m, c, 2*want+15, 1)
}

// A worker of an earlier version writes one cell, at any time, and would count cells twice while they are
// folded.
func TestNothingIsFoldedWhileAnEarlierVersionUsesTheAccount(t *testing.T) {
	m, c, want := aged(t, foldFrom)
	key := team.prefix() + "all/earlier"
	if err := m.Put(t.Context(), key, []byte(`{"tokens":4}`)); err != nil {
		t.Fatal(err)
	}
	foldIn(t, m, c)
	wantFolded(t, "beside it", m, c, want+4, foldFrom+1)
	c.set(c.now().Add(quiet))
	foldIn(t, m, c)
	wantFolded(t, "after it", m, c, want+4, 2) // its own cell stays
	if err := m.Put(t.Context(), key, []byte(`{"tokens":6}`)); err != nil {
		t.Fatal(err)
	}
	wantFolded(t, "it is back", m, c, want+6, 2)
}

type shared struct{ *memory }

func (shared) CreateOnce(context.Context, string, []byte) error { return store.ErrNotExclusive }

func TestAStoreThatCannotExcludeIsNotFolded(t *testing.T) {
	m, c, want := aged(t, foldFrom)
	foldIn(t, shared{m}, c)
	wantFolded(t, "not folded", m, c, want, foldFrom)
}

func TestAFoldForgetsOldNamesOfDeletedCellsOnly(t *testing.T) {
	f := fold{Folded: map[string]Amount{}}
	for i := range mostFolded {
		f.Folded[fmt.Sprintf("a%04d.2026-11-30", i)] = Amount{Tokens: 1}
	}
	for _, name := range []string{"old.2026-11-02", "here.2026-11-02", "less.2026-11-09"} {
		f.Folded[name] = Amount{Tokens: 1}
	}
	f.forget(map[string]bool{"here.2026-11-02": true})
	_, here := f.Folded["here.2026-11-02"]
	_, old := f.Folded["old.2026-11-02"]
	if !here || old || len(f.Folded) != mostFolded {
		t.Errorf("%d names, among them the one that is there: %v; the oldest: %v", len(f.Folded), here, old)
	}
	if data, err := json.Marshal(f); err != nil || len(data) > 1<<19 {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}

func TestAWeekBeginsOnMonday(t *testing.T) {
	for day, want := range map[string]string{"2026-11-29": "2026-11-23", "2026-11-30": "2026-11-30", "2026-12-06": "2026-11-30", "2027-01-01": "2026-12-28"} {
		at, err := time.Parse(time.DateOnly, day)
		if err != nil {
			t.Fatal(err)
		}
		if got := week(at.Add(23 * time.Hour)).Format(time.DateOnly); got != want {
			t.Errorf("%s: %s, want %s", day, got, want)
		}
	}
	if monday, ok := weekOf(strings.ToLower("ABC") + ".2026-11-30"); !ok || !monday.Equal(week(noon)) {
		t.Errorf("the week of a name: %s, %v", monday, ok)
	}
}
