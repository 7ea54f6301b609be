package snapshots

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/realparts"
	"fairlead.dev/fairlead/snapshots/chunks"
)

// A shelf contains the rollouts of a CODEX_HOME by path.
type shelf map[string]string

func (s shelf) list() (all []Rollout) {
	for _, name := range slices.Sorted(maps.Keys(s)) {
		all = append(all, Rollout{name, int64(len(s[name]))})
	}
	return all
}

func (s shelf) open(name string) (io.ReadCloser, error) {
	text, ok := s[name]
	if !ok {
		return nil, fmt.Errorf("%s is not there", name)
	}
	return io.NopCloser(strings.NewReader(text)), nil
}

const sessionsDir = "sessions/2026/11/22/rollout-2026-11-22T00-00-00-"

// own returns the rollout of a thread. forked returns the rollout of a thread that was
// forked from another one.
func own(id string) string {
	return fmt.Sprintf(`{"ordinal":0,"type":"session_meta","payload":{"id":%q,"base_instructions":{"text":%q}}}`+"\n{}\n", id, strings.Repeat("be kind ", 8000))
}

func forked(id, from string, end int) string {
	return fmt.Sprintf(`{"type":"session_meta","payload":{"id":%q,"forked_from_id":%q,"history_base":{"thread_id":%q,"end_ordinal_exclusive":3,"end_byte_offset":%d}}}`+"\n", id, from, from, end)
}

func TestLineageNamesTheRolloutsThatAThreadNeeds(t *testing.T) {
	s := shelf{
		sessionsDir + "a.jsonl":                          own("a"),
		sessionsDir + "b.jsonl":                          forked("b", "a", 100),
		"archived_sessions/rollout-c.jsonl":              forked("c", "b", 10),
		sessionsDir + "d.jsonl":                          forked("d", "c", 10),
		sessionsDir + "legacy.jsonl":                     `{"type":"session_meta","payload":{"id":"legacy","forked_from_id":"gone"}}` + "\n",
		sessionsDir + "of-another-name.jsonl":            own("e"),
		sessionsDir + "torn.jsonl":                       `{"type":"session_meta","payl`,
		sessionsDir + "empty.jsonl":                      "",
		sessionsDir + "stranger.jsonl":                   "no JSON\n",
		"sessions/notes-a.jsonl":                         own("x"),
		"archived_sessions/rollout-of-itself-old.jsonl":  own("old"),
		sessionsDir + "ring-1.jsonl":                     forked("ring-1", "ring-2", 10),
		sessionsDir + "ring-2.jsonl":                     forked("ring-2", "ring-1", 10),
		sessionsDir + "far.jsonl":                        forked("far", "a", 1<<30),
		sessionsDir + "packed.jsonl.zst":                 packed(t, own("packed")),
		sessionsDir + "of-packed.jsonl":                  forked("of-packed", "packed", 1000),
		"archived_sessions/2025/rollout-a-twice-a.jsonl": own("a"),
	}
	for thread, want := range map[string][]string{
		"a":         {sessionsDir + "a.jsonl"},
		"b":         {sessionsDir + "b.jsonl", sessionsDir + "a.jsonl"},
		"d":         {sessionsDir + "d.jsonl", "archived_sessions/rollout-c.jsonl", sessionsDir + "b.jsonl", sessionsDir + "a.jsonl"},
		"legacy":    {sessionsDir + "legacy.jsonl"},
		"e":         {sessionsDir + "of-another-name.jsonl"},
		"of-packed": {sessionsDir + "of-packed.jsonl", sessionsDir + "packed.jsonl.zst"},
	} {
		if got, err := Lineage(thread, s.list(), s.open); err != nil || !slices.Equal(got, want) {
			t.Errorf("thread %s needs %q (%v), want %q", thread, got, err, want)
		}
	}
	for thread, want := range map[string]LineageError{
		"nobody": {Thread: "nobody", Of: "nobody", Why: "is missing"},
		"torn":   {Thread: "torn", Of: "torn", Why: "is missing"},
		"x":      {Thread: "x", Of: "x", Why: "is missing"},
		"old":    {Thread: "old", Of: "old", Path: "archived_sessions/rollout-of-itself-old.jsonl", Why: "is archived, and codex resumes no archived thread"},
		"far":    {Thread: "far", Of: "a", Path: sessionsDir + "a.jsonl", Why: fmt.Sprintf("has %d bytes, and it was forked at %d", len(own("a")), 1<<30)},
	} {
		_, err := Lineage(thread, s.list(), s.open)
		if e, ok := errors.AsType[*LineageError](err); !ok || *e != want {
			t.Errorf("thread %s: %v", thread, err)
		}
	}
	if _, err := Lineage("ring-1", s.list(), s.open); err == nil || !strings.Contains(err.Error(), "forks") {
		t.Errorf("a ring of forks: %v", err)
	}
	// A rollout that cannot be read does not count as missing.
	broken := errors.New("the store is away")
	_, err := Lineage("b", s.list(), func(name string) (io.ReadCloser, error) {
		if strings.HasSuffix(name, "a.jsonl") {
			return io.NopCloser(io.MultiReader(strings.NewReader(`{"type"`), &failing{broken})), nil
		}
		return s.open(name)
	})
	if _, ok := errors.AsType[*LineageError](err); ok || !errors.Is(err, broken) {
		t.Errorf("a parent that cannot be read: %v", err)
	}
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

func packed(t *testing.T, text string) string {
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Lineage agrees with the real codex, which resumes a thread if all rollouts exist, and
// refuses it if one is missing.
func TestLineageAgreesWithCodex(t *testing.T) {
	s := scriptedmodel.Serve(t, "rules: [{reply: hello}]")
	k := newCodexHome(t, s, nil)
	first := k.open("thread/start", "")
	k.turn(first)
	second := k.open("thread/fork", first)
	k.turn(second)
	k.turn(first)
	third := k.open("thread/fork", second)
	k.turn(third)
	k.stop()
	all := k.shelf()
	if len(all) != 3 {
		t.Fatalf("rollouts %q", slices.Collect(maps.Keys(all)))
	}
	of := func(thread string) string {
		for name := range all {
			if strings.Contains(name, thread) {
				return name
			}
		}
		t.Fatalf("no rollout of %s", thread)
		return ""
	}
	with := func(change func(shelf)) shelf {
		c := maps.Clone(all)
		change(c)
		return c
	}
	move := func(s shelf, from, to string) { s[to] = s[from]; delete(s, from) }
	for name, c := range map[string]struct {
		files  shelf
		thread string
	}{
		"all":                       {all, third},
		"without the first":         {with(func(s shelf) { delete(s, of(first)) }), third},
		"without the second":        {with(func(s shelf) { delete(s, of(second)) }), third},
		"without itself":            {with(func(s shelf) { delete(s, of(third)) }), third},
		"only itself, and no fork":  {shelf{of(first): all[of(first)]}, first},
		"parent archived":           {with(func(s shelf) { move(s, of(first), "archived_sessions/"+filepath.Base(of(first))) }), second},
		"itself archived":           {with(func(s shelf) { move(s, of(first), "archived_sessions/"+filepath.Base(of(first))) }), first},
		"parent by another name":    {with(func(s shelf) { move(s, of(first), "sessions/"+"other.jsonl") }), second},
		"parent is too short":       {with(func(s shelf) { s[of(first)] = all[of(first)][:30000] }), second},
		"parent's end is cut":       {with(func(s shelf) { s[of(first)] = all[of(first)][:len(all[of(first)])-50] }), second},
		"its own last line is torn": {with(func(s shelf) { s[of(second)] = all[of(second)][:len(all[of(second)])-50] }), second},
		"parent is packed":          {with(func(s shelf) { s[of(first)+".zst"] = packed(t, s[of(first)]); delete(s, of(first)) }), second},
		"itself is packed":          {shelf{of(first) + ".zst": packed(t, all[of(first)])}, first},
		"its first line is torn":    {with(func(s shelf) { s[of(first)] = all[of(first)][:100] }), first},
	} {
		t.Run(name, func(t *testing.T) {
			_, ours := Lineage(c.thread, c.files.list(), c.files.open)
			theirs := newCodexHome(t, s, c.files).resume(c.thread)
			if (ours == nil) != (theirs == nil) {
				t.Errorf("we say %v, codex says %v", ours, theirs)
			}
		})
	}
}

type codexHome struct {
	t    *testing.T
	dir  string
	work string
	conn *wire.Conn
	done chan struct{} // receives a value for each turn/completed
	cmd  *exec.Cmd
}

type twoPipes struct {
	io.Reader
	io.WriteCloser
}

func newCodexHome(t *testing.T, s *scriptedmodel.Server, files shelf) *codexHome {
	t.Helper()
	root := t.TempDir()
	k := &codexHome{t: t, dir: filepath.Join(root, "codex-home"), work: filepath.Join(root, "work"), done: make(chan struct{}, 10)}
	for _, d := range []string{k.dir, k.work, filepath.Join(root, "tmp")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(k.dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(k.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(k.dir, "config.toml"), []byte(scriptedmodel.ConfigTOML(s.BaseURL(), "a-token")), 0o600); err != nil {
		t.Fatal(err)
	}
	k.cmd = exec.Command(realparts.CodexBinary(t), "app-server")
	k.cmd.Env = []string{"CODEX_HOME=" + k.dir, "HOME=" + root, "TMPDIR=" + filepath.Join(root, "tmp"), "PATH=" + os.Getenv("PATH")}
	in, err := k.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := k.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := k.cmd.Start(); err != nil {
		t.Fatalf("no codex to test with (%v); run `make tools`", err)
	}
	k.conn = wire.NewConn(twoPipes{out, in}, wire.ConnConfig{Notify: func(method string, _ json.RawMessage) {
		if method == "turn/completed" {
			k.done <- struct{}{}
		}
	}})
	t.Cleanup(k.stop)
	if _, err := wire.Handshake(k.ctx(), k.conn, wire.DefaultClient); err != nil {
		t.Fatal(err)
	}
	return k
}

func (k *codexHome) ctx() context.Context {
	ctx, stop := context.WithTimeout(k.t.Context(), time.Minute)
	k.t.Cleanup(stop)
	return ctx
}

func (k *codexHome) stop() {
	_ = k.cmd.Process.Kill() // the process may have ended already
	_ = k.cmd.Wait()
	_ = k.conn.Close()
}

func (k *codexHome) call(method, thread string) (id string, err error) {
	var answer struct {
		Thread struct {
			ID string `json:"id"`
		} `json:"thread"`
	}
	params := map[string]any{"cwd": k.work, "approvalPolicy": "never", "sandbox": "read-only", "model": "gpt-5.5"}
	if thread != "" {
		params["threadId"], params["excludeTurns"] = thread, true
	}
	err = k.conn.Call(k.ctx(), method, params, &answer)
	return answer.Thread.ID, err
}

func (k *codexHome) open(method, thread string) string {
	k.t.Helper()
	id, err := k.call(method, thread)
	if err != nil {
		k.t.Fatal(err)
	}
	return id
}

func (k *codexHome) resume(thread string) error {
	_, err := k.call("thread/resume", thread)
	return err
}

func (k *codexHome) turn(thread string) {
	k.t.Helper()
	err := k.conn.Call(k.ctx(), "turn/start", map[string]any{"threadId": thread, "input": []map[string]string{{"type": "text", "text": "hi"}}}, nil)
	if err != nil {
		k.t.Fatal(err)
	}
	select {
	case <-k.done:
	case <-time.After(time.Minute):
		k.t.Fatal("the turn does not end")
	}
}

func (k *codexHome) shelf() shelf {
	k.t.Helper()
	all := shelf{}
	err := filepath.WalkDir(filepath.Join(k.dir, "sessions"), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		rel, _ := filepath.Rel(k.dir, name) // name lies below k.dir
		all[filepath.ToSlash(rel)] = string(text)
		return err
	})
	if err != nil {
		k.t.Fatal(err)
	}
	return all
}

// CheckLineage finds the lineage in a snapshot as Lineage finds it in files of the host.
func TestSnapshotWithoutAParentsRolloutIsFoundBeforeItIsRestored(t *testing.T) {
	dir, c := t.TempDir(), chunks.Open(newTestStore(t), chunks.Options{})
	take := func(thread string, turn int, files shelf) string {
		home, err := os.MkdirTemp(dir, "home")
		must(t, err)
		for name, text := range files {
			write(t, home, name, text)
		}
		m, err := Take(t.Context(), localHost(t), c, TakeSpec{Session: "s1", Facts: Facts{ThreadID: thread, Turn: turn}, Trees: []TreeSpec{RolloutsOf(home)}})
		must(t, err)
		return m.ID
	}
	parent, child := sessionsDir+"parent.jsonl", sessionsDir+"child.jsonl"
	long := own("parent") + strings.Repeat(randomText(1000), 3000) // more than one chunk
	for name, want := range map[string]struct {
		id  string
		bad bool
	}{
		"both":             {take("child", 1, shelf{parent: long, child: forked("child", "parent", 2_000_000)}), false},
		"parent packed":    {take("child", 1, shelf{parent + ".zst": packed(t, long), child: forked("child", "parent", 2_000_000)}), false},
		"no parent":        {take("child", 1, shelf{child: forked("child", "parent", 2_000_000)}), true},
		"short parent":     {take("child", 1, shelf{parent: own("parent"), child: forked("child", "parent", 2_000_000)}), true},
		"nothing":          {take("child", 1, nil), true},
		"no turn as yet":   {take("child", 0, nil), false},
		"no thread as yet": {take("", 0, nil), false},
	} {
		err := CheckLineage(t.Context(), c, want.id)
		if _, typed := errors.AsType[*LineageError](err); typed != want.bad || !want.bad && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
