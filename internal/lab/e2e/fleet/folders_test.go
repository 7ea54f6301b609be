package fleet

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// The folders on a host are examined automatically. The folder of an ended session
// that nobody remembers is saved, wiped and removed, with proof. The folder of
// a running session stays, and so does a stranger's, which is reported.
func TestAFolderThatNobodyRemembersIsWipedAndAStrangersIsNamed(t *testing.T) {
	at := func(session string, path ...string) string {
		return filepath.Join(append([]string{e2e.Root, "sessions", session}, path...)...)
	}
	run := func(name string, args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(e2e.Within(t), name, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v: %s", name, args, err, out)
		}
		return string(out)
	}
	seen := func(session string) string {
		t.Helper()
		return run("sh", "-c", `cd "$1" && find . -type f -exec cksum {} + | sort && find . -exec stat -c '%n %a %Y %Z' {} + | sort`, "sh", at(session))
	}
	e2e.Session(t, "folder-lost")
	e2e.Session(t, "folder-used")
	e2e.Turn(t, "folder-lost", "hello")
	e2e.Turn(t, "folder-used", "hello")
	if err := os.WriteFile(at("folder-lost", "work", "work.txt"), []byte("precious\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	aside := filepath.Join(e2e.Lab.Dir, "folder-aside")
	room, err := filepath.EvalSymlinks(at("folder-lost", "room"))
	if err != nil {
		t.Fatal(err)
	}
	place := filepath.Dir(room)
	run("cp", "-a", at("folder-lost"), aside)
	run("cp", "-a", place, aside+"-place")
	e2e.OK(t, "session", "close", "folder-lost")
	// As if the session had never been closed there and the pool did not know
	// of it.
	run("cp", "-a", aside, at("folder-lost"))
	run("cp", "-a", aside+"-place/.", place)
	// A stranger's has no room.
	run("sh", "-c", `cd "$1" && rm room codex-home work tmp inputs && cp -a "$2/codex-home" "$2/work" .`, "sh", aside, aside+"-place/room")
	run("mv", aside, at("folder-stranger"))
	t.Cleanup(func() { os.RemoveAll(at("folder-stranger")) })
	for _, s := range []string{"folder-lost", "folder-used", "folder-stranger"} {
		then := time.Now().Add(-time.Hour)
		if err := os.Chtimes(at(s, "generation"), then, then); err != nil {
			t.Fatal(err)
		}
	}
	before := seen("folder-stranger")

	c, err := e2e.Lab.Temporal(e2e.Within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.ScheduleClient().GetHandle(e2e.Within(t), protocol.MaintainLeftoversID("")).Trigger(e2e.Within(t), client.ScheduleTriggerOptions{}); err != nil {
		t.Fatal(err)
	}
	var proof protocol.Leftover
	var h protocol.HostView
	e2e.Until(t, "what was left to be wiped", func() (bool, error) {
		h = protocol.HostView{}
		err := e2e.Lab.JSON(e2e.Within(t), &h, "host", "show", "web-1")
		for _, l := range h.Leftovers {
			if l.Session == "folder-lost" {
				proof = l
			}
		}
		return !proof.WipedAt.IsZero(), err
	})
	if !proof.Removed || proof.Kept != "" || proof.Archive == "" || proof.Generation == 0 {
		t.Errorf("the proof is %+v", proof)
	}
	if _, err := os.Lstat(at("folder-lost")); !os.IsNotExist(err) {
		t.Errorf("its folder: %v", err)
	}
	tar := filepath.Join(t.TempDir(), "kept.tar")
	e2e.OK(t, "snapshot", "export", proof.Archive, tar)
	if got := run("tar", "-xOf", tar, "work/work.txt"); got != "precious\n" {
		t.Errorf("its work is kept as %q", got)
	}
	if after := seen("folder-stranger"); after != before {
		t.Errorf("the stranger's was\n%s\nand is\n%s", before, after)
	}
	named := ""
	for _, f := range h.UnknownFolders {
		named += f.Session + " "
	}
	if !strings.Contains(named, "folder-stranger ") || strings.Contains(named, "folder-used") || h.Folders == nil || h.Folders.Unknown != len(h.UnknownFolders) || h.Folders.Dir != filepath.Join(e2e.Root, "sessions") {
		t.Errorf("named are %q, %+v", named, h.Folders)
	}
	if out := e2e.OK(t, "host", "show", "web-1"); !strings.Contains(out, "folder-stranger") || !strings.Contains(out, "left alone") {
		t.Errorf("shown as %s", out)
	}
	if v := e2e.Turn(t, "folder-used", "hello again"); v.Status != "completed" {
		t.Errorf("the session that ran all the time: %+v", v)
	}
}
