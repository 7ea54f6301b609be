package conversation

import (
	"bytes"
	"context"
	"encoding/json"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

// planted puts a file at the place where the caller of the pump would put it.
func planted(t *testing.T, k *talk, kind protocol.InputKind, name string, content []byte) protocol.Input {
	t.Helper()
	dir := filepath.Join(filepath.Dir(k.h.work), "inputs")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	in := protocol.Input{Kind: kind, Name: name, Bytes: int64(len(content)), Path: filepath.Join(dir, name)}
	if err := os.WriteFile(in.Path, content, 0o400); err != nil {
		t.Fatal(err)
	}
	return in
}

func lastBody(t *testing.T, s *scriptedmodel.Server) string {
	t.Helper()
	all := s.Requests()
	if len(all) == 0 {
		t.Fatal("the model was asked nothing")
	}
	return string(all[len(all)-1].Body)
}

// pictures returns the smallest picture of each type.
func pictures(t *testing.T) map[string][]byte {
	t.Helper()
	img := image.NewPaletted(image.Rect(0, 0, 2, 2), color.Palette{color.Black, color.White})
	var p, j, g bytes.Buffer
	for _, err := range []error{png.Encode(&p, img), jpeg.Encode(&j, img, nil), gif.Encode(&g, img, nil)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return map[string][]byte{"png": p.Bytes(), "jpeg": j.Bytes(), "gif": g.Bytes()}
}

// inputsReachTheModel shows that images are shown to the model, also in a steered turn. The
// model is told the paths of other files. Its commands can read these files in each
// sandbox, and cannot write them in a sandbox that confines. The history keeps images
// without the file.
func inputsReachTheModel(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, `
rules:
  - when: {matches: '/\S+/notes\.txt'}
    steps:
      - shell: "cat {{ index .Match 0 }}; (echo over > {{ index .Match 0 }}) 2>/dev/null || echo kept"
      - say: "{{ .LastToolOutput }}"
  - when: {contains: what}
    reply: seen
`)
	for _, sandbox := range []string{"read-only", "workspace-write"} {
		k := c.talk(t, s)
		k.spec.Sandbox = sandbox
		file := planted(t, k, protocol.InputFile, "notes.txt", []byte("the notes\n"))
		send := turn(1, "m-1", "read it")
		send.Inputs = []protocol.Input{file}
		r := k.pump(TurnEnded, send)
		got, err := os.ReadFile(file.Path)
		// This home is below the temporary folder, where workspace-write may write.
		if !strings.Contains(r.Turn.FinalText, "the notes") {
			t.Errorf("%s: the command saw %q", sandbox, r.Turn.FinalText)
		}
		if sandbox == "read-only" && (string(got) != "the notes\n" || err != nil) {
			t.Errorf("read-only: the file is %q, %v", got, err)
		}
	}
	k := c.talk(t, s)
	send := turn(1, "m-1", "what is in them?")
	for kind, data := range pictures(t) {
		send.Inputs = append(send.Inputs, planted(t, k, protocol.InputImage, "a."+kind, data))
	}
	k.pump(TurnEnded, send)
	if got := strings.Count(lastBody(t, s), `"image_url":"data:image/`); got != 3 {
		t.Errorf("the model saw %d images, want 3", got)
	}
	for _, in := range send.Inputs {
		if err := os.Remove(in.Path); err != nil {
			t.Fatal(err)
		}
	}
	k.restart()
	k.pump(TurnEnded, turn(2, "m-2", "what was it?"))
	if got := strings.Count(lastBody(t, s), `"image_url":"data:image/`); got != 3 {
		t.Errorf("after a restart, with the files gone, the model saw %d images, want 3", got)
	}
}

// outputSchemaReachesTheProvider shows that an output schema is used for its turn and no
// other, and that the turn ends with its last message.
func outputSchemaReachesTheProvider(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, `
rules:
  - when: {contains: json}
    steps:
      - - say: I shall look.
        - shell: "true"
      - say: '{"a": "b"}'
  - reply: plain
`)
	k := c.talk(t, s)
	send := turn(1, "m-1", "json please")
	send.Schema = json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`)
	r := k.pump(TurnEnded, send)
	var body struct {
		Text struct {
			Format struct {
				Schema json.RawMessage `json:"schema"`
			} `json:"format"`
		} `json:"text"`
	}
	if err := json.Unmarshal([]byte(lastBody(t, s)), &body); err != nil || len(body.Text.Format.Schema) == 0 {
		t.Errorf("the provider was given no schema: %s, %v", body.Text.Format.Schema, err)
	}
	if !r.Turn.Structured || r.Turn.FinalText != "I shall look.\n\n{\"a\": \"b\"}" {
		t.Fatalf("turn %+v", r.Turn)
	}
	if out, err := ParseOutput(r.Turn.FinalText[r.Turn.FinalAt:]); string(out) != `{"a":"b"}` || err != nil {
		t.Errorf("output %s, %v", out, err)
	}
	r = k.pump(TurnEnded, turn(2, "m-2", "and now"))
	body.Text.Format.Schema = nil
	if err := json.Unmarshal([]byte(lastBody(t, s)), &body); err != nil || len(body.Text.Format.Schema) > 0 || r.Turn.Structured {
		t.Errorf("the next turn has the schema too: %s, %v, %+v", body.Text.Format.Schema, err, r.Turn)
	}
}

// instructionsAreKept shows that the thread keeps the instructions, once, over a restart
// and a compaction.
func instructionsAreKept(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, `rules: [{reply: hello}]`)
	k := c.talk(t, s)
	k.spec.Instructions = "INSTRUCTED: say little"
	once := func(when string) {
		t.Helper()
		if got := strings.Count(lastBody(t, s), "INSTRUCTED"); got != 1 {
			t.Errorf("%s: the model is told %d times", when, got)
		}
	}
	k.pump(TurnEnded, turn(1, "m-1", "one"))
	once("at first")
	k.restart()
	k.pump(TurnEnded, turn(2, "m-2", "two"))
	once("after a restart")
	k.p.kill()
	k.restart()
	l := c.line(t, k)
	_, params := (&opening{core: &core{in: k.input(), st: k.state}}).threadParams()
	l.must(wire.MethodResume, params, nil)
	l.must("thread/compact/start", map[string]any{"threadId": k.state.ThreadID}, nil)
	k.sink.await(t, "the compaction", func() bool { return bytes.Contains(k.p.bytes(), []byte(`"type":"contextCompaction"`)) })
	k.sink.await(t, "the compaction's end", func() bool {
		all := k.p.bytes()
		return bytes.Contains(all[bytes.LastIndex(all, []byte(`"type":"contextCompaction"`)):], []byte(`turn/completed`))
	})
	l.ended(l.turn(k.state.ThreadID, "three"), "completed")
	once("after a compaction")
}

// personalityIsTakenOrRefused shows that a personality that codex would ignore is refused
// for a new thread.
func personalityIsTakenOrRefused(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, `rules: [{reply: hello}]`)
	k := c.talk(t, s)
	k.spec.Personality = "friendly"
	in := k.input(turn(1, "m-1", "one"))
	r := k.run(context.Background(), in)
	if !c.has(wire.Personalities) {
		if r.Reason != Refused || r.Problem == nil || r.Problem.Kind != "version" || !strings.Contains(r.Problem.Message, "personality friendly") {
			t.Errorf("the pump returned %s, %+v", r.Reason, r.Problem)
		}
		c.note = "refused: it has none"
		return
	}
	if r.Reason != TurnEnded {
		t.Fatalf("the pump returned %s, %+v", r.Reason, r.Problem)
	}
	told := instructionsOf(t, s)
	k.restart()
	k.pump(TurnEnded, turn(2, "m-2", "two"))
	if got := instructionsOf(t, s); got != told || strings.Contains(lastBody(t, s), "personality_spec") {
		t.Error("a restart changed the personality")
	}
	other := c.talk(t, s)
	other.spec.Personality = "none"
	other.pump(TurnEnded, turn(1, "m-1", "one"))
	if instructionsOf(t, s) == told {
		t.Error("none and friendly are told the same")
	}
}

func instructionsOf(t *testing.T, s *scriptedmodel.Server) string {
	t.Helper()
	var body struct {
		Instructions string `json:"instructions"`
	}
	if err := json.Unmarshal([]byte(lastBody(t, s)), &body); err != nil || body.Instructions == "" {
		t.Fatalf("instructions %q, %v", body.Instructions, err)
	}
	return body.Instructions
}

func TestInputNamesNameOneFileAnywhere(t *testing.T) {
	for name, want := range map[string]string{
		"notes.txt": "notes.txt", "a b.pdf": "a b.pdf", "Füße.txt": "Füße.txt", "": "file", ".": "file", "..": "file", " .. ": "file",
		"../../etc/passwd": ".._.._etc_passwd", `a\b`: "a_b", "a\nb\x00\x1b[31m": "a_b__[31m", "a\u202eb": "a_b", "\xff": "_",
		strings.Repeat("x", 300) + ".tar.gz": strings.Repeat("x", 93) + ".tar.gz",
	} {
		if got := InputName(name); got != want || InputName(got) != got {
			t.Errorf("%q is called %q, want %q", name, got, want)
		}
	}
}

func TestInputsThatTheAPIDidNotGiveAreRefused(t *testing.T) {
	good := protocol.Input{Kind: protocol.InputFile, Name: "a", Blob: "owned/session.s-1.a.0123456789abcdef/inputs/" + strings.Repeat("0", 64), Digest: strings.Repeat("a", 64), Bytes: 1}
	if err := CheckInputs(slices.Repeat([]protocol.Input{good}, protocol.MaxInputs)); err != nil {
		t.Fatal(err)
	}
	bad := map[string]func(*protocol.Input){
		"kind": func(i *protocol.Input) { i.Kind = "audio" }, "no name": func(i *protocol.Input) { i.Name = "" }, "a path": func(i *protocol.Input) { i.Name = "../x" },
		"another blob": func(i *protocol.Input) { i.Blob = "seeds/" + strings.Repeat("0", 64) }, "a blob above": func(i *protocol.Input) { i.Blob = strings.Replace(i.Blob, "/inputs/", "/../seeds/", 1) },
		"digest": func(i *protocol.Input) { i.Digest = "A" + i.Digest[1:] }, "nothing": func(i *protocol.Input) { i.Bytes = 0 }, "too big": func(i *protocol.Input) { i.Bytes = protocol.MaxFile + 1 },
		"too big an image": func(i *protocol.Input) { i.Kind, i.Bytes = protocol.InputImage, protocol.MaxImage+1 },
	}
	for what, change := range bad {
		in := good
		change(&in)
		if CheckInputs([]protocol.Input{in}) == nil {
			t.Errorf("%s: taken", what)
		}
	}
	if CheckInputs(slices.Repeat([]protocol.Input{good}, protocol.MaxInputs+1)) == nil {
		t.Error("too many: taken")
	}
}

func TestWhatCannotBeSaidIsRejectedAndNotSaid(t *testing.T) {
	send := turn(1, "m-1", "hello")
	send.Unsayable = "its file is gone"
	s := perform(t, PumpInput{State: opened(), Sends: []Send{send}}, Options{})
	s.heard()
	r := s.result(Bound)
	if delivered(t, r, "m-1") != protocol.Rejected || r.Deliveries[0].Error != "its file is gone" {
		t.Errorf("%+v", r.Deliveries)
	}
}

type diffKeeper struct {
	*keeper
	diffs []protocol.TurnDiff
}

func (d *diffKeeper) Diff(t protocol.TurnDiff) error {
	d.diffs = append(d.diffs, t)
	return nil
}

func TestTheNewestDiffOfATurnIsHandedOverOnceWithNoSecretInIt(t *testing.T) {
	sink := &diffKeeper{keeper: newKeeper()}
	red := NewRedactor("hunter2hunter2")
	m, err := newMachine(PumpInput{Session: "s", Prefix: "p", State: running()}, sink, Options{Redactor: red}, 0)
	if err != nil {
		t.Fatal(err)
	}
	m.atStart()
	off := int64(0)
	hear := func(line string) {
		raw := []byte(line)
		m.read(wire.Line{Raw: raw, Offset: m.st.Cursor.Offset + off, End: m.st.Cursor.Offset + off + int64(len(raw)) + 1}, 0)
	}
	diff := func(text string) string {
		p, _ := json.Marshal(map[string]string{"threadId": "thread-1", "turnId": "turn-1", "diff": text})
		return `{"method":"turn/diff/updated","params":` + string(p) + `}`
	}
	hear(diff("diff --git a/x b/x\n@@ -0,0 +1 @@\n+old\n"))
	hear(diff("diff --git a/x b/x\n@@ -0,0 +1 @@\n+hunter2hunter2\n" + strings.Repeat("+a line\n", MaxDiff/8)))
	hear(turnDone("completed", ""))
	m.tick(m.lim.Attach)
	if m.err != nil || len(sink.diffs) != 1 {
		t.Fatalf("%d diffs, %v", len(sink.diffs), m.err)
	}
	d := sink.diffs[0]
	if d.Turn != m.turns.end.N || strings.Contains(d.Text, "hunter2") || strings.Contains(d.Text, "+old") || !d.Cut || len(d.Text) > MaxDiff || !strings.HasSuffix(d.Text, "\n") {
		t.Errorf("diff of turn %d, %d bytes, cut %v: %.80q", d.Turn, len(d.Text), d.Cut, d.Text)
	}
}

// A pump hands over a diff only if it changed since the pump before, although codex repeats
// the whole diff.
func TestADiffThatAnEarlierPumpHandedOverIsNotHandedOverAgain(t *testing.T) {
	st, handed := running(), 0
	say := func(text string) string {
		return `{"method":"turn/diff/updated","params":{"threadId":"thread-1","turnId":"turn-1","diff":"` + text + `"}}`
	}
	for i, c := range []struct {
		lines   []string
		attempt int
		want    int
	}{
		{[]string{say("+a")}, 1, 1}, {[]string{say("+a")}, 1, 1}, {[]string{say("+a"), say("+b"), say("+b")}, 1, 2}, {[]string{say("+b")}, 1, 2},
		{[]string{say("+a")}, 1, 3}, {[]string{"{}"}, 1, 3},
		{[]string{say("+a")}, 2, 4}, // the first attempt may have handed over another diff, which would count instead of this one
		{[]string{say("+a"), turnDone("completed", "")}, 1, 4},
	} {
		sink := &diffKeeper{keeper: newKeeper()}
		m, err := newMachine(PumpInput{Prefix: "p", State: st}, sink, Options{Attempt: c.attempt}, st.Cursor.Offset)
		if err != nil {
			t.Fatal(err)
		}
		s := &stage{t: t, m: m, sink: sink.keeper, at: st.Cursor.Offset}
		m.atStart()
		s.hear(c.lines...)
		if m.cancel(m.now); m.result == nil {
			t.Fatalf("pump %d: %v", i, m.err)
		}
		st, handed = m.result.State, handed+len(sink.diffs)
		if handed != c.want {
			t.Errorf("after pump %d %d diffs were handed over, want %d", i, handed, c.want)
		}
	}
	st.TurnID, st.Turn = "turn-2", 5 // another turn that makes the same change
	sink := &diffKeeper{keeper: newKeeper()}
	m, err := newMachine(PumpInput{Prefix: "p", State: st}, sink, Options{}, st.Cursor.Offset)
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, m: m, sink: sink.keeper, at: st.Cursor.Offset}
	m.atStart()
	s.hear(strings.Replace(say("+a"), "turn-1", "turn-2", 1))
	if m.cancel(m.now); len(sink.diffs) != 1 || sink.diffs[0].Turn != 5 {
		t.Errorf("of the next turn: %+v", sink.diffs)
	}
}

func TestRateLimitsAreMergedAndThoseOfModelsLeftOut(t *testing.T) {
	var told []Use
	m, err := newMachine(PumpInput{Session: "s", Prefix: "p", State: running()}, newKeeper(), Options{Used: func(u Use) { told = append(told, u) }}, 0)
	if err != nil {
		t.Fatal(err)
	}
	m.st.AtMS = 7
	for _, p := range []string{
		`{"rateLimits":{"limitId":"codex","primary":null,"secondary":null,"planType":null}}`,
		`{"rateLimits":{"limitId":"codex","primary":{"usedPercent":12,"windowDurationMins":300,"resetsAt":1795331963},"secondary":{"usedPercent":40,"windowDurationMins":10080},"planType":"pro"}}`,
		`{"rateLimits":{"limitId":"codex_other","primary":{"usedPercent":99}}}`,
		`{"rateLimits":{"limitId":"codex","primary":{"usedPercent":13,"windowDurationMins":300,"resetsAt":1795331963}}}`,
		`{"rateLimits":7}`,
	} {
		m.turns.rateLimitsUpdated(json.RawMessage(p))
	}
	want := protocol.RateLimits{Primary: &protocol.RateWindow{UsedPercent: 13, WindowMinutes: 300, ResetsAt: 1795331963}, Secondary: &protocol.RateWindow{UsedPercent: 40, WindowMinutes: 10080, ResetsAt: 0}, Plan: "pro", AtMS: 7}
	got, _ := json.Marshal(m.st.RateLimits)
	if w, _ := json.Marshal(want); string(got) != string(w) || len(told) != 2 {
		t.Errorf("%s, want %s; told %d times", got, w, len(told))
	}
}
