package outages

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/lab/standin"
	"fairlead.dev/fairlead/internal/protocol"
)

// A part is a piece of codex that a host has received.
type part struct {
	path         string
	offset, size int64
}

// partsOn lists the parts that a host has received during an upload of codex.
func partsOn(root string) (list []part) {
	paths, _ := filepath.Glob(filepath.Join(root, "codex", ".parts-*", "part-*"))
	for _, p := range paths {
		words := strings.Split(filepath.Base(p), "-") // part-HOW-OFFSET-RANDOM
		info, err := os.Stat(p)
		if err != nil || len(words) != 4 {
			continue
		}
		if offset, err := strconv.ParseInt(words[2], 10, 64); err == nil {
			list = append(list, part{p, offset, info.Size()})
		}
	}
	return list
}

// A line of 60 KB/s with a burst of 100 KB serves a session like any other. An
// upload of codex that is cut resumes where it stopped, and the session works,
// takes a snapshot, and moves to another host.
func TestASessionLivesOverASlowLine(t *testing.T) {
	ctx := e2e.Within(t)
	codex := t.TempDir()
	if err := standin.Pack(ctx, e2e.Repo, codex); err != nil {
		t.Fatal(err)
	}
	line, err := hosttest.NewDelayLine(ctx, 20*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	l, err := lab.New(ctx, lab.Options{Repo: e2e.Repo, Script: []byte("rules: []\n"), Codex: codex})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := line.Close(); err != nil {
			t.Error(err)
		}
	})
	roots := map[string]string{}
	for name, behind := range map[string]*hosttest.DelayLine{"slow": line, "other": nil} {
		roots[name] = filepath.Join(l.Dir, name)
		if _, err := l.AddHost(ctx, name, hosttest.Options{Root: roots[name], Behind: behind}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.ImportSeed(ctx, "team"); err != nil {
		t.Fatal(err)
	}
	ok := func(args ...string) {
		t.Helper()
		if _, err := l.Out(e2e.Within(t), args...); err != nil {
			t.Fatal(err)
		}
	}
	const id = "far"
	line.SetRate(60_000)
	ok("session", "start", "--host", "slow", "--seed", "team", "--id", id, "--snapshot", "full",
		"--sandbox", "danger-full-access", "--approval-policy", "never")
	var had []part
	arrived := int64(0)
	e2e.Until(t, "half of codex to arrive", func() (bool, error) {
		had = partsOn(roots["slow"])
		for _, p := range had {
			arrived = max(arrived, p.offset+p.size)
		}
		return arrived > 500<<10, nil
	})
	if line.Reset() == 0 {
		t.Error("there was no connection to cut")
	}
	e2e.Until(t, "the upload to go on", func() (bool, error) {
		for _, p := range partsOn(roots["slow"]) {
			if p.path == had[0].path {
				continue
			}
			if p.offset < arrived {
				t.Errorf("%d bytes of codex were there when it was cut, and the upload went on at %d", arrived, p.offset)
			}
			return true, nil
		}
		return false, nil
	})
	turn := func(text string) {
		t.Helper()
		var v protocol.TurnView
		if err := l.JSON(e2e.Within(t), &v, "session", "send", id, text); err != nil || v.Status != "completed" {
			t.Fatalf("the turn is %+v, %v", v, err)
		}
	}
	turn("run head -c 100000 /dev/urandom >blob")
	show := func() (v protocol.SessionView, err error) {
		err = l.JSON(e2e.Within(t), &v, "session", "show", id)
		return v, err
	}
	e2e.Until(t, "a snapshot", func() (bool, error) {
		v, err := show()
		return err == nil && v.Snapshot != nil && v.Snapshot.ID != "" && v.Snapshot.Turn == 1, err
	})
	blob := func(host string) []byte {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(roots[host], "sessions", id, "work", "blob"))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	first := blob("slow")
	ok("session", "resume", id, "--host", "other")
	turn("run echo there >there")
	if v, err := show(); err != nil || v.Host != "other" {
		t.Errorf("after the move it is %+v, %v", v, err)
	}
	if !bytes.Equal(blob("other"), first) {
		t.Error("its file is another one on the other host")
	}
	ok("session", "close", id)
}
