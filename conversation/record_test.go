package conversation

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

var update = flag.Bool("update", false, "record testdata anew from the real codex")

// A step of a recording is one line of either direction. A line that we wrote comes after
// all lines that codex had written before.
type step struct {
	In  string `json:"in,omitempty"`
	Out string `json:"out,omitempty"`
}

// A recorder notes when each line was written.
type recorder struct {
	p   *process
	mu  sync.Mutex
	ins []struct {
		at   int
		line []byte
	}
}

func (r *recorder) Write(b []byte) (int, error) {
	r.mu.Lock()
	r.ins = append(r.ins, struct {
		at   int
		line []byte
	}{len(r.p.bytes()), bytes.Clone(b)})
	r.mu.Unlock()
	return r.p.stdin.Write(b)
}

// steps merges both directions. Private data is replaced.
func (r *recorder) steps(clean func(string) string) []step {
	var all []step
	journal := r.p.bytes()
	at := 0
	upTo := func(end int) {
		for at < end {
			i := bytes.IndexByte(journal[at:], '\n')
			if i < 0 || at+i >= end {
				return
			}
			all = append(all, step{Out: clean(string(journal[at : at+i]))})
			at += i + 1
		}
	}
	for _, in := range r.ins {
		upTo(in.at)
		for line := range strings.Lines(string(in.line)) {
			if line = strings.TrimSpace(line); line != "" {
				all = append(all, step{In: clean(line)})
			}
		}
	}
	upTo(len(journal))
	return all
}

func saveRecording(t *testing.T, name string, steps []step) {
	t.Helper()
	var b bytes.Buffer
	for _, s := range steps {
		line := canonical(s)
		b.Write(line)
		b.WriteByte('\n')
	}
	if err := os.WriteFile(filepath.Join("testdata", name), b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// recordingOf returns the file with the recorded conversation of a version. All
// other replays use the pinned version's.
func recordingOf(version string) string {
	if version == wire.TestedVersion {
		return "approvals.jsonl"
	}
	return "approvals-" + version + ".jsonl"
}

func loadRecording(t testing.TB, name string) []step {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatalf("%v (record it with -update)", err)
	}
	var steps []step
	d := json.NewDecoder(bytes.NewReader(text))
	for {
		var s step
		if err := d.Decode(&s); err == io.EOF {
			return steps
		} else if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, s)
	}
}

// cleaner replaces text that differs between machines. It also replaces the list of models,
// which is long and not needed.
func cleaner(k *talk) func(string) string {
	names := strings.NewReplacer(k.h.work, "/srv/work", k.h.dir, "/srv/codex-home", k.h.tmp, "/srv/tmp",
		strings.TrimPrefix(k.h.work, os.TempDir()+"/"), "work") // in diffs
	return func(line string) string {
		line = names.Replace(line)
		var m map[string]json.RawMessage
		if json.Unmarshal([]byte(line), &m) == nil && strings.Contains(string(m["id"]), ".models.") && m["result"] != nil {
			m["result"] = json.RawMessage(`{"data":[],"nextCursor":null}`)
			return string(canonical(m))
		}
		return line
	}
}

// recordedTurns are the messages of the recorded conversation. They are sent when it is
// recorded, and in every replay.
var recordedTurns = []string{"change things", "and now?"}

const recordedScript = `
rules:
  - when: {contains: change things}
    steps:
      - - think: Two commands and a file.
        - say: "I shall run two commands: größer, 更大."
        - shell: {cmd: "printf made > made; cat made", escalate: true, justification: first}
        - shell: {cmd: "printf two > two", escalate: true, justification: second}
      - patch: |
          *** Begin Patch
          *** Add File: /srv/outside.txt
          +hello
          +there
          *** End Patch
      - patch: |
          *** Begin Patch
          *** Add File: inside.txt
          +hello
          *** End Patch
      - say: "Done: {{ .LastToolOutput }}"
  - when: {contains: and now}
    reply: "You began with {{ .FirstUser }}."
`

// outcomeOf returns the person's decision: accept for the first command, decline for the
// second and for files outside.
func outcomeOf(r protocol.Request) protocol.Outcome {
	if r.Reason == "first" || r.Kind == protocol.KindFileChange && !strings.Contains(r.Summary, "outside") {
		return protocol.Accept
	}
	return protocol.Decline
}

// A leader runs one pump after another, as a workflow does.
type leader struct {
	state   PumpState
	spec    ThreadSpec
	pump    func(PumpInput) (PumpResult, error)
	pumps   int
	turns   []TurnEnd
	answers []string // the requests and their answers
}

// lead runs all turns, or stops at a pump's first error.
func (l *leader) lead(texts []string) error {
	for n, text := range texts {
		id := "m-" + string(rune('1'+n))
		sends := []Send{turn(n+1, id, text)}
		for {
			l.pumps++
			r, err := l.pump(PumpInput{
				Session: "recorded", State: l.state, Thread: l.spec, Resume: l.state.ThreadID != "",
				Sends: sends, Prefix: "g1.p" + string(rune('0'+l.pumps)),
			})
			if err != nil {
				return err
			}
			l.state = r.State
			sends = nil
			for _, q := range r.Requests {
				o := outcomeOf(q)
				l.answers = append(l.answers, q.Summary+" "+q.Digest+": "+string(o))
				sends = append(sends, decide("d-"+string(q.RPC), q, o))
			}
			if r.Reason == TurnEnded {
				l.turns = append(l.turns, *r.Turn)
				break
			}
			if r.Reason != RequestsOpen || len(sends) == 0 {
				return &strangeReturn{r}
			}
		}
	}
	return nil
}

type strangeReturn struct{ r PumpResult }

func (e *strangeReturn) Error() string {
	text, _ := json.Marshal(e.r)
	return "strange return: " + string(text)
}

// recordedConversationStillHappens runs the conversation with the real codex. With
// -update it makes the recording that the replays use.
func recordedConversationStillHappens(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, recordedScript)
	k := c.talk(t, s)
	k.spec.Sandbox = "read-only"
	k.spec.Mark = ""
	rec := &recorder{p: k.p}
	l := &leader{state: k.state, spec: k.spec}
	l.pump = func(in PumpInput) (PumpResult, error) {
		return Run(t.Context(), k.p.attach(in.From(), rec), in, k.sink, Options{})
	}
	if err := l.lead(recordedTurns); err != nil {
		t.Fatal(err)
	}
	if len(l.answers) != 4 || len(l.turns) != 2 || l.turns[1].FinalText != "You began with change things." {
		t.Errorf("answers %q, turns %+v", l.answers, l.turns)
	}
	if want := "1 file changed, 1 insertion(+)"; l.turns[0].DiffStat != want {
		t.Errorf("diff stat %q, want %q", l.turns[0].DiffStat, want)
	}
	if *update {
		saveRecording(t, recordingOf(c.version), rec.steps(cleaner(k)))
	}
}
