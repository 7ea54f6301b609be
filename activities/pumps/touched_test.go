package pumps

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
)

// A file counts by the time of its last change, which a command cannot set back. What was there
// before does not count, and neither does what git keeps.
func TestWatchedFilesThatChangedAreFound(t *testing.T) {
	pool := hostexec.NewPool(hostexec.PoolOptions{})
	t.Cleanup(func() { pool.Close() })
	h, err := pool.Host(protocol.HostSpec{Name: protocol.LocalHost})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "it's a hôst")
	run := func(script string) {
		t.Helper()
		c := exec.Command("sh", "-ec", script)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	run("mkdir -p a/b .git; echo 1 > a/before.sql; echo 1 > a/touched.txt; echo 1 > .git/in.sql; echo 1 > removed.md")
	// The search looks at seconds, by the clock of the file system, which is behind the time of day.
	probe := filepath.Join(t.TempDir(), "probe")
	clock := func() int64 {
		if err := os.WriteFile(probe, []byte("1"), 0o600); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(probe)
		if err != nil {
			t.Fatal(err)
		}
		return info.ModTime().Unix()
	}
	reach := func(second int64) {
		for clock() < second {
			time.Sleep(10 * time.Millisecond)
		}
	}
	since := clock() + 1
	reach(since)
	watched := []conversation.WatchedFiles{
		{Name: "made", Patterns: []string{"a/b/*.go"}}, {Name: "old", Patterns: []string{"it's *.txt"}}, {Name: "before", Patterns: []string{"*.sql"}},
		{Name: "removed", Patterns: []string{"*.md"}}, {Name: "link", Patterns: []string{"a/link"}}, {Name: "touched", Patterns: []string{"a/touched.txt"}},
	}
	until := int64(0)
	find := func(want ...string) {
		t.Helper()
		names, err := ChangedWithin(t.Context(), h, dir, since, until, watched)
		slices.Sort(names)
		if err != nil || !slices.Equal(names, want) {
			t.Errorf("changed are %q (%v), want %q", names, err, want)
		}
	}
	find()
	run("echo 2 > a/b/new.go; echo 2 > .git/more.sql; rm removed.md; ln -s .. a/link; touch -d 2020-01-01 a/touched.txt; echo 1 > x; touch -d 2020-01-01 x; mv x \"a/it's old.txt\"")
	find("link", "made", "old", "touched")

	until = clock()
	reach(until + 1)
	run("echo 3 >> a/b/new.go; echo 3 > late.sql") // after the turn
	find("link", "old", "touched")

	if err := os.Rename(dir, dir+" no more"); err != nil {
		t.Fatal(err)
	}
	if names, err := ChangedWithin(t.Context(), h, dir, since, until, watched); err == nil {
		t.Errorf("of a folder that is not there, %q changed", names)
	}
}
