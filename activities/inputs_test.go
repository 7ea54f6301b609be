package activities

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
)

// stored stores a file as the worker's API does.
func (b *bed) stored(kind protocol.InputKind, name string, data []byte) protocol.Input {
	b.t.Helper()
	sum := sha256.Sum256(data)
	key, err := b.store.PutContent(b.t.Context(), owned.In(aFolder, owned.Inputs), data)
	if err != nil {
		b.t.Fatal(err)
	}
	return protocol.Input{Kind: kind, Name: name, Blob: key, Digest: hex.EncodeToString(sum[:]), Bytes: int64(len(data))}
}

func onHost(t *testing.T, k *talk, in protocol.Input) string {
	t.Helper()
	data, err := os.ReadFile(pumps.InputPath(k.layout, in))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// A file of a message is on the host, outside the work folder, before codex has the
// message. If the pump is tried several times, there is still only one turn.
func TestAFileIsThereBeforeItsMessageAndTheTurnBeginsOnce(t *testing.T) {
	model := scriptedmodel.Serve(t, `
rules:
  - when: {matches: '/\S+/notes\.txt'}
    steps:
      - shell: "cat {{ index .Match 0 }}"
      - say: "it says {{ .LastToolOutput }}"
`)
	k := handMade(t, "with-file", model)
	k.start()
	file := k.stored(protocol.InputFile, "notes.txt", []byte("the notes"))
	send := k.message("read what I give you")
	send.Inputs = []protocol.Input{file}
	in := k.input(send)

	// The first attempt dies after it planted the file and before it sent the message.
	if err := pumps.PlantInputs(t.Context(), k.set.Pump.Site, in, 1); err != nil {
		t.Fatal(err)
	}
	if got := onHost(t, k, file); got != "the notes" {
		t.Fatalf("planted %q", got)
	}
	out := k.run(in, 2, conversation.TurnEnded)
	if !strings.Contains(out.Pump.Turn.FinalText, "it says the notes") {
		t.Errorf("turn %+v", out.Pump.Turn)
	}
	// A later attempt does not send the message again.
	k.run(in, 3, conversation.TurnEnded)
	said := 0
	for _, e := range readAll(t, k.store, "with-file", 1) {
		if e.Type == protocol.EntryUser {
			said++
			if !strings.Contains(e.Text, pumps.InputPath(k.layout, file)) {
				t.Errorf("the message on record is %q", e.Text)
			}
		}
	}
	if said != 1 {
		t.Errorf("the message was said %d times", said)
	}
	left, err := filepath.Glob(filepath.Join(k.layout.WorkDir, "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("in the work folder are %v, %v", left, err)
	}
}

// A planted file is restored if anything else is in its place.
func TestAPlantedFileIsMended(t *testing.T) {
	k := handMade(t, "mended", scriptedmodel.Serve(t, `rules: []`))
	file := k.stored(protocol.InputFile, "a b.txt", []byte("as it was"))
	in := k.input()
	in.Files = []protocol.Input{file}
	where := pumps.InputPath(k.layout, file)
	for what, spoil := range map[string]func() error{
		"nothing there": func() error { return nil },
		"other content": func() error {
			return errors.Join(os.Remove(where), os.WriteFile(where, []byte("as it was not"), 0o600))
		},
		"another length":  func() error { return errors.Join(os.Remove(where), os.WriteFile(where, nil, 0o600)) },
		"gone":            func() error { return os.Remove(where) },
		"a folder":        func() error { return errors.Join(os.Remove(where), os.MkdirAll(filepath.Join(where, "x"), 0o700)) },
		"a link to it":    func() error { return errors.Join(os.Rename(where, where+"2"), os.Symlink(where+"2", where)) },
		"a dangling link": func() error { return errors.Join(os.Remove(where), os.Symlink("/nowhere", where)) },
	} {
		if _, err := os.Lstat(where); err == nil {
			if err := spoil(); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		if err := pumps.PlantInputs(t.Context(), k.set.Pump.Site, in, 1); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got := onHost(t, k, file); got != "as it was" {
			t.Errorf("%s: the file is %q", what, got)
		}
	}
}

// A message whose file is missing is not sent, and the session goes on.
func TestAMessageWhoseFileIsGoneIsNotSaid(t *testing.T) {
	k := handMade(t, "gone-file", scriptedmodel.Serve(t, `rules: [{reply: fine}]`))
	k.start()
	good := k.stored(protocol.InputFile, "a.txt", []byte("hello"))
	for what, change := range map[string]func(*protocol.Input){
		"no blob":         func(i *protocol.Input) { i.Blob = owned.In(aFolder, owned.Inputs) + "/" + strings.Repeat("0", 64) },
		"another content": func(i *protocol.Input) { i.Digest = strings.Repeat("a", 64) },
		"longer":          func(i *protocol.Input) { i.Bytes++ },
		"another's blob":  func(i *protocol.Input) { i.Blob = "seeds/team/1" },
	} {
		bad := good
		change(&bad)
		send := k.message("read it")
		send.Inputs = []protocol.Input{bad}
		out := k.pump(conversation.Bound, send)
		d := out.Pump.Deliveries
		if len(d) != 1 || d[0].State != protocol.Rejected || !strings.HasPrefix(d[0].Error, pumps.NotSaid) {
			t.Errorf("%s: %+v", what, d)
		}
		k.turn--
	}
	k.pump(conversation.TurnEnded, k.message("and now"))
}

// The whole diff of a turn is in the store when its pump returns, without secrets.
// Usage and use of the context are reported during the turn.
func TestTheDiffOfATurnIsKeptAndItsUseIsTold(t *testing.T) {
	model := scriptedmodel.Serve(t, `
rules:
  - when: {contains: change}
    steps:
      - - patch: |
            *** Begin Patch
            *** Add File: one.txt
            +one
            +sk-a-secret-of-the-seed-0123456789
            *** End Patch
        - usage: {input: 1000, cached: 200, output: 30}
      - - say: changed
        - usage: {input: 2000, output: 40}
  - reply: nothing to do
`)
	k := handMade(t, "diffs", model)
	k.start()
	if _, err := records.ReadDiff(t.Context(), k.store, "diffs", 0); !errors.Is(err, records.ErrNoDiff) {
		t.Errorf("before any turn: %v", err)
	}
	out := k.pump(conversation.TurnEnded, k.message("change it"))
	d, err := records.ReadDiff(t.Context(), k.store, "diffs", 1)
	if err != nil || d.Turn != 1 || !strings.Contains(d.Text, "+one\n") || !strings.Contains(d.Text, "one.txt") {
		t.Errorf("diff %+v, %v; turn %+v", d, err, out.Pump.Turn)
	}
	k.pump(conversation.TurnEnded, k.message("hello"))
	if last, err := records.ReadDiff(t.Context(), k.store, "diffs", 0); err != nil || last.Turn != 1 {
		t.Errorf("the last diff is of turn %d, %v", last.Turn, err)
	}
	if _, err := records.ReadDiff(t.Context(), k.store, "diffs", 2); !errors.Is(err, records.ErrNoDiff) {
		t.Errorf("of a turn that changed nothing: %v", err)
	}
	told := false
	for _, s := range k.states("diffs") {
		if u := s.Use; s.Attached && s.TurnID != "" && u != nil && u.Usage.Input == 1000 && u.TurnUsage.Cached == 200 && u.Context != nil && u.Context.Used == 1030 && u.Context.Window > 0 {
			told = true
		}
	}
	if !told {
		t.Error("nobody was told of what the turn used before its end")
	}
}

func TestDiffsOfATurnAreOrderedByTheirPlace(t *testing.T) {
	st := newStore(t)
	s := &site.Site{Deps: site.Deps{Store: st}}
	for _, d := range []protocol.TurnDiff{
		{Turn: 2, Place: protocol.Cursor{Incarnation: 1, Offset: 900}, Text: "older"}, {Turn: 2, Place: protocol.Cursor{Incarnation: 1, Offset: 1000}, Text: "old"},
		{Turn: 2, Place: protocol.Cursor{Incarnation: 2, Offset: 7}, Text: "newest"}, {Turn: 1, Place: protocol.Cursor{Incarnation: 1, Offset: 5000}, Text: "of another"},
	} {
		for range 2 { // the second time as another attempt does
			if err := site.KeepDiff(t.Context(), s, "s", d, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if d, err := records.ReadDiff(t.Context(), st, "s", 2); err != nil || d.Text != "newest" {
		t.Errorf("%+v, %v", d, err)
	}
	if d, err := records.ReadDiff(t.Context(), st, "s", 1); err != nil || d.Text != "of another" {
		t.Errorf("%+v, %v", d, err)
	}
	if left, err := st.List(t.Context(), records.DiffPrefix("s")); err != nil || len(left) != 2 {
		t.Errorf("beside the newest of each turn there are %+v, %v", left, err)
	}
}

func TestALongSchemaIsReadFromTheStore(t *testing.T) {
	k := handMade(t, "schemas", scriptedmodel.Serve(t, `rules: []`))
	put := func(text []byte) string {
		key, err := k.store.PutContent(t.Context(), owned.In(aFolder, owned.Messages), text)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	long := append(append([]byte(`{"description":"`), bytes.Repeat([]byte("x"), 20<<10)...), `"}`...)
	sends := []conversation.Send{{ID: "a", SchemaBlob: put(long)}, {ID: "b", SchemaBlob: put([]byte("no schema"))}, {ID: "c", SchemaBlob: owned.In(aFolder, owned.Messages) + "/" + strings.Repeat("0", 64)}}
	if err := pumps.FillSchemas(t.Context(), k.set.Pump.Site, sends); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(sends[0].Schema, long) || sends[0].Unsayable != "" || sends[1].Unsayable == "" || sends[2].Unsayable == "" {
		t.Errorf("%.40s %q, %q, %q", sends[0].Schema, sends[0].Unsayable, sends[1].Unsayable, sends[2].Unsayable)
	}
	if err := pumps.FillSchemas(t.Context(), k.set.Pump.Site, []conversation.Send{{ID: "d", SchemaBlob: "seeds/team"}}); err == nil {
		t.Error("a blob of a seed is read")
	}
}
