package snapshots

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
)

// What is left out says why: a folder that is only another's is no credential.
// What could not be read is named, whatever else is left out with it.
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
	c := OpenChunks(newTestStore(t), ChunkOptions{})
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
