package snapshots

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/snapshots/chunks"
)

// Every path that is left out has the right reason. A folder of another user does not count
// as a credential. Unreadable paths are named, however many other paths are left out.
func TestWhatIsLeftOutSaysWhy(t *testing.T) {
	h := hostOf(t, hosttest.StartSSHD(t, hosttest.Options{NewUser: os.Getuid() == 0}).Spec())
	dir := "/tmp/" + filepath.Base(t.TempDir()) + fmt.Sprint(os.Getpid())
	t.Cleanup(func() { os.RemoveAll(dir) })
	_, err := h.Run(t.Context(), hostexec.Command{Args: []string{dir}, Script: `mkdir -p "$1/.ours/home/sessions" "$1/mine" "$1/.skipped" && cd "$1" && echo {} >.ours/home/sessions/a
mkdir .codex && echo no >.codex/auth.json
i=0; while [ $i -lt 120 ]; do mkfifo "fifo$i"; i=$((i+1)); done
echo no >zzz && mkdir zzzz && chmod 000 zzz zzzz`})
	if err != nil {
		t.Fatal(err)
	}
	rollouts, work := RolloutsOf(dir+"/.ours/home"), WorkOf(dir, WorkFull, nil)
	work.Skip = func(p string) bool { return p == ".skipped" }
	c := chunks.Open(newTestStore(t), chunks.Options{})
	m, err := Take(t.Context(), h, c, TakeSpec{ID: NewID("why", time.Now()), Session: "why", Trees: []TreeSpec{rollouts, work}})
	if err != nil {
		t.Fatal(err)
	}
	why := map[string]string{}
	for _, l := range m.LeftOut {
		why[l.Path] = l.Why
	}
	for path, want := range map[string]string{"work/.ours/home": "another tree", "work/.skipped": "ours", "work/.codex/auth.json": "credential",
		"work/fifo0": "fifo", "work/zzz": "unreadable", "work/zzzz/": "unreadable"} {
		if why[path] != want {
			t.Errorf("%s is left out as %q, want %q", path, why[path], want)
		}
	}
	n, names := m.Unread(1, Rollouts, Work)
	if none, _ := m.Unread(1, Rollouts); m.Unreadable != 2 || n != 2 || none != 0 || len(names) != 1 || len(m.LeftOut) > maxListed || m.LeftOutCount != 125 {
		t.Errorf("unread: %d of %d, %q; left out are %d of %d", n, m.Unreadable, names, len(m.LeftOut), m.LeftOutCount)
	}
}

// If a disk fails during the listing, names are missing. Then Unread is not 0, so that the
// originals are not deleted. Other messages do not count.
func TestWhatCouldNotBeListedIsSaid(t *testing.T) {
	for said, lacks := range map[string]int64{
		"find: './sub': Input/output error":          1,
		"find: ./sub: Stale file handle":             1,
		"stat: cannot stat './a': I/O error":         1,
		"find: './shut': Permission denied":          0, // the folder is listed as unreadable
		"find: './a': No such file or directory":     0,
		"find: warning: something is out of date":    0,
		"welcome to this machine: behave yourselves": 0,
	} {
		dir := t.TempDir() + "/w"
		write(t, dir, "a", "text")
		st := newTestStore(t)
		m, err := Take(t.Context(), complainingHost{localHost(t), said}, chunks.Open(st, chunks.Options{}), workOf(dir))
		must(t, err)
		if n, names := m.Unread(5, Work); n != lacks || int64(len(names)) != lacks || m.Files != 1 {
			t.Errorf("%q: lacks %d, %q; %d files", said, n, names, m.Files)
		}
	}
}

// A complainingHost makes find print a message in every search.
type complainingHost struct {
	hostexec.Host
	said string
}

func (h complainingHost) Start(ctx context.Context, c hostexec.Command) (hostexec.Stream, error) {
	if strings.Contains(c.Script, "find . -mindepth 1") {
		c.Script = "find() { command find \"$@\"; case $* in *-mindepth*) echo \"" + h.said + "\" >&2; return 1 ;; esac; }\n" + c.Script
	}
	return h.Host.Start(ctx, c)
}
