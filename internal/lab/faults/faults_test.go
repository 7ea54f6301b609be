package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/lab/scenario"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/realparts"
)

// The short form runs every quick kind of fault on real parts.
func TestFaultsAreSurvived(t *testing.T) {
	realparts.NotShort(t)
	repo := realparts.Root(t)
	if err := tryAll(t.Context(), options{repo: repo, seed: 20261121, short: true, nth: -1, out: t.Output()}); err != nil {
		t.Error(err)
	}
}

// The short form of faults on a rotating login: it has one holder, is never
// lost and is never left behind.
func TestSeedsSurviveFaults(t *testing.T) {
	realparts.NotShort(t)
	repo := realparts.Root(t)
	if err := tryRows(t.Context(), options{repo: repo, seed: 20261121, short: true, nth: -1, out: t.Output()}, seedKind); err != nil {
		t.Error(err)
	}
}

// The short form of faults on snapshots: nothing is deleted without a copy, and
// no partial snapshot claims to be complete.
func TestSnapshotsSurviveFaults(t *testing.T) {
	realparts.NotShort(t)
	repo := realparts.Root(t)
	if err := tryRows(t.Context(), options{repo: repo, seed: 20261121, short: true, nth: -1, out: t.Output()}, snapKind); err != nil {
		t.Error(err)
	}
}

// The short form of a storm: sessions that start on a host without codex all
// complete while workers, connections and the Temporal server die every few
// seconds.
func TestStormsAreSurvived(t *testing.T) {
	realparts.NotShort(t)
	repo := realparts.Root(t)
	if err := tryStorms(t.Context(), options{repo: repo, seed: 20261121, short: true, nth: -1, out: t.Output()}); err != nil {
		t.Error(err)
	}
}

// A storm that did not strike proves nothing.
func TestAStormThatSeldomStruckHasFailed(t *testing.T) {
	for _, c := range []struct {
		planned, struck int
		took, clean     bool
	}{{10, 10, true, true}, {10, 5, true, true}, {10, 4, true, false}, {0, 0, true, false}, {10, 10, false, false}} {
		r := stormResult{Result: scenario.Result{Took: c.took}, planned: c.planned, struck: c.struck}
		if r.clean() != c.clean {
			t.Errorf("%d of %d strikes, ended %v, is judged clean: %v", c.struck, c.planned, c.took, r.clean())
		}
	}
}

func TestTheTableOfStormsCountsWhatWentWrong(t *testing.T) {
	r := stormResult{Result: scenario.Result{Subject: "a storm", Moment: "a phase", Took: true, Recovered: 3 * time.Second}, sessions: 6, planned: 9, struck: 8, within: 7, attempts: 9}
	for i, count := range stormCounts {
		for range i + 1 {
			r.Find(count, "x")
		}
	}
	if got := strings.Join(stormTable([]stormResult{r})[1], "|"); got != "a storm|a phase|6|8 of 9|7|9|1|2|3|4|5|6|3 s" {
		t.Errorf("the line is %s", got)
	}
}

func TestTheSeedDecidesThePlanOfAStorm(t *testing.T) {
	plan := func(seed uint64) string {
		return fmt.Sprint(planStorm(scenario.Random(seed, several), 100*time.Second))
	}
	if first, again := plan(1), plan(1); first != again || first == plan(2) {
		t.Error("the plan does not follow from the seed")
	}
	for seed := range uint64(20) {
		last, kinds := time.Duration(0), map[string]int{}
		for i, p := range planStorm(scenario.Random(seed, several), 100*time.Second) {
			if gap := p.at - last; i == 0 && p.at > time.Second || i > 0 && (gap < 2*time.Second || gap > 6*time.Second) {
				t.Errorf("seed %d strikes at %s after %s", seed, p.at, last)
			}
			last = p.at
			kinds[p.kind]++
		}
		if last < 94*time.Second || len(kinds) != len(stormKinds) {
			t.Errorf("seed %d strikes until %s, %v", seed, last, kinds)
		}
	}
}

// Whatever a restore must preserve, the judge of snapshots must compare.
func TestTheJudgeOfWorkFoldersSeesEachChange(t *testing.T) {
	if testing.Short() {
		t.Skip("lists a work folder again and again: slow with the race detector")
	}
	root := t.TempDir()
	s := newSnapRun(&rowRun{})
	s.run = &run{host: &host{root: root}, id: "x", stage: &stage{}}
	if err := s.works(); err != nil {
		t.Fatal(err)
	}
	if s.sameWork("once"); len(s.res.Found) > 0 {
		t.Fatalf("what did not change is judged %q", s.res.Found)
	}
	first := s.now
	if err := s.works(); err != nil {
		t.Fatal(err)
	}
	if s.now == first || s.states[first] != 1 || s.states[s.now] != 2 {
		t.Errorf("two versions are %v", s.states)
	}
	work := s.run.work()
	whole := s.now
	for what, change := range map[string]func() error{
		"a byte":     func() error { return os.WriteFile(filepath.Join(work, "version"), []byte("9\n"), 0o644) },
		"a mode":     func() error { return os.Chmod(filepath.Join(work, "bin/run"), 0o644) },
		"a folder":   func() error { return os.Remove(filepath.Join(work, "empty")) },
		"a link":     func() error { return os.Remove(filepath.Join(work, "dangling")) },
		"a new file": func() error { return os.WriteFile(filepath.Join(work, "new"), nil, 0o644) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		s.res.Found = nil
		s.now = whole
		if s.sameWork("a change"); len(s.res.Found[workLost]) != 1 || s.now == whole {
			t.Errorf("after %s it is judged %q", what, s.res.Found)
		}
		whole = s.now
	}
}

// A table that always shows zeros proves nothing.
func TestTheTableOfEachKindCountsWhatWentWrong(t *testing.T) {
	for _, k := range []*kind{seedKind, snapKind} {
		first := k.rows[0]
		good := scenario.Result{Subject: first.fault, Moment: first.step, Took: true}
		never := scenario.Result{Subject: first.fault, Moment: first.step}
		bad := good
		for i, count := range k.counts {
			for range i + 1 {
				bad.Find(count, "x")
			}
		}
		if !good.Clean() || bad.Clean() || never.Clean() {
			t.Errorf("%s: what is clean is not", k.name)
		}
		want := []string{first.fault, first.step, "2 of 3"}
		for i := range k.counts {
			want = append(want, fmt.Sprint(i+1))
		}
		rows := k.table([]*scenario.Result{&good, &bad, &never})
		if got := strings.Join(rows[1], "|"); got != strings.Join(want, "|") || len(rows) != 3 || len(rows[0]) != len(want) {
			t.Errorf("%s: %d rows, the first is %s", k.name, len(rows), got)
		}
		if k.counts[len(k.counts)-1] != wrong {
			t.Errorf("%s: what has no column of its own is shown nowhere", k.name)
		}
	}
}

// spoken is a journal as codex writes it, with one request.
var spoken = []string{
	`{"id":"g1.p1-1","result":{"turn":{"id":"t1"}}}`,
	`{"method":"item/completed","params":{"item":{"id":"u1","type":"userMessage","clientId":"m1","content":[{"type":"text","text":"hi"}]},"threadId":"th","turnId":"t1"}}`,
	`{"method":"item/agentMessage/delta","params":{"itemId":"a1","delta":"he"}}`,
	`{"method":"item/completed","params":{"item":{"id":"a1","type":"agentMessage","text":"hello"},"threadId":"th","turnId":"t1"}}`,
	`{"id":0,"method":"item/commandExecution/requestApproval","params":{"itemId":"c1"}}`,
	`{"method":"serverRequest/resolved","params":{"threadId":"th","requestId":0}}`,
	`{"method":"turn/completed","params":{"threadId":"th","turn":{"id":"t1","status":"completed"}}}`,
}

// written is the transcript that a correct pump makes of spoken.
func written() []protocol.Entry {
	var out []protocol.Entry
	at := int64(0)
	for i, line := range spoken {
		e := protocol.Entry{ID: fmt.Sprintf("i1.%d", at)}
		switch i {
		case 1:
			e.Type, e.Item, e.Text = protocol.EntryType("user"), "u1", "hi"
		case 3:
			e.Type, e.Item, e.Text = protocol.EntryType("assistant"), "a1", "hello"
		case 4:
			e.Type, e.Item, e.Text = protocol.EntryType("request"), "c1", "run it"
		case 6:
			e.Type, e.Text = protocol.EntryType("state"), "turn completed"
		}
		if e.Type != "" {
			e.Seq = int64(len(out) + 1)
			out = append(out, e)
		}
		at += int64(len(line)) + 1
	}
	return out
}

func judged(lines []string, entries []protocol.Entry) scenario.Result {
	var res scenario.Result
	(&run{fault: faults[0], moment: moments[0]}).judgeEvents(&res, []journal{scan([]byte(strings.Join(lines, "\n") + "\n"))}, entries)
	return res
}

func TestTheJudgeOfEventsIsContentWithWhatIsRight(t *testing.T) {
	if res := judged(spoken, written()); len(res.Found[eventLost])+len(res.Found[eventRepeated])+len(res.Found[wrong]) > 0 {
		t.Errorf("a right transcript is judged %+v", res)
	}
}

func TestTheJudgeOfEventsSeesWhatIsWrong(t *testing.T) {
	renumbered := func(es []protocol.Entry) []protocol.Entry {
		for i := range es {
			es[i].Seq = int64(i + 1)
		}
		return es
	}
	w := written()
	twice := w[1]
	twice.ID += "-1"
	foreign := protocol.Entry{ID: "i1.7", Type: "assistant", Text: "I never said that"}
	other := w[1]
	other.Text = "hallo"
	unfinished := protocol.Entry{ID: fmt.Sprintf("i1.%d", len(spoken[0])+len(spoken[1])+2), Type: "assistant", Text: "he"}
	for _, c := range []struct {
		name                  string
		entries               []protocol.Entry
		lost, repeated, wrong int
	}{
		{"an entry is lost", renumbered([]protocol.Entry{w[0], w[2], w[3]}), 1, 0, 0},
		{"a number is left out", []protocol.Entry{w[0], w[1], w[2], {Seq: 5, ID: w[3].ID, Type: w[3].Type, Text: w[3].Text}}, 1, 0, 0},
		{"an entry stands there twice", renumbered([]protocol.Entry{w[0], w[1], twice, w[2], w[3]}), 0, 1, 0},
		{"the same id stands there twice", renumbered([]protocol.Entry{w[0], w[1], w[1], w[2], w[3]}), 0, 2, 0},
		{"codex never said it", renumbered([]protocol.Entry{w[0], foreign, w[1], w[2], w[3]}), 0, 1, 1},
		{"a delta is no entry", renumbered([]protocol.Entry{w[0], unfinished, w[1], w[2], w[3]}), 0, 1, 0},
		{"the text is another", renumbered([]protocol.Entry{w[0], other, w[2], w[3]}), 0, 0, 1},
		{"the order is another", renumbered([]protocol.Entry{w[1], w[0], w[2], w[3]}), 0, 0, 1},
	} {
		res := judged(spoken, c.entries)
		if len(res.Found[eventLost]) != c.lost || len(res.Found[eventRepeated]) != c.repeated || len(res.Found[wrong]) != c.wrong {
			t.Errorf("%s: judged %+v", c.name, res)
		}
	}
}

func TestTheJudgeOfAnswersCountsWhatCodexResolved(t *testing.T) {
	resolved := spoken[5]
	without := append(append([]string{}, spoken[:5]...), spoken[6])
	for _, c := range []struct {
		name           string
		lines          []string
		state          protocol.ApprovalState
		ends           bool
		lost, repeated int
	}{
		{"resolved once", spoken, protocol.ApprovalAcknowledged, false, 0, 0},
		{"resolved twice", append(append([]string{}, spoken...), resolved), protocol.ApprovalAcknowledged, false, 0, 1},
		{"never resolved", without, protocol.ApprovalSent, false, 2, 0},
		{"forgotten", without, protocol.ApprovalOpen, true, 1, 0},
		{"void with its process", without, protocol.ApprovalVoid, true, 0, 0},
		{"sent, and its process ended", without, protocol.ApprovalSent, true, 0, 0},
	} {
		var res scenario.Result
		r := &run{fault: &fault{ends: c.ends}, moment: moments[0], want: "completed"}
		r.judgeAnswers(&res, []journal{scan([]byte(strings.Join(c.lines, "\n") + "\n"))},
			protocol.SessionDetail{Approvals: []protocol.Approval{{ID: "s.1", State: c.state}}})
		if len(res.Found[answerLost]) != c.lost || len(res.Found[answerRepeated]) != c.repeated {
			t.Errorf("%s: judged %+v", c.name, res)
		}
	}
}

func TestAJournalThatIsTornEndsAtItsLastLine(t *testing.T) {
	j := scan([]byte(spoken[1] + "\n" + spoken[3][:40]))
	if len(j.told) != 1 || j.heard["m1"] != 1 {
		t.Errorf("read %+v", j)
	}
}

func TestTheSeedDecidesTheSchedule(t *testing.T) {
	names := func(o options) string {
		waves, err := schedule(o)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		total := 0
		for _, w := range waves {
			out = append(out, fmt.Sprintf("%s/%d", w.fault.name, w.nth))
			total += len(w.moments)
		}
		if !o.short && o.only == "" && total < o.runs {
			t.Errorf("%d runs are scheduled of %d", total, o.runs)
		}
		text, _ := json.Marshal(out)
		return string(text)
	}
	o := options{seed: 1, runs: 200, nth: -1}
	again, other := o, o
	other.seed = 2
	if names(o) != names(again) || names(o) == names(other) {
		t.Error("the order does not follow from the seed")
	}
	for _, f := range faults {
		if !strings.Contains(names(o), fmt.Sprintf("%q", f.name+"/0")) {
			t.Errorf("fault %s is not in a schedule of 200 runs", f.name)
		}
	}
	one := options{seed: 1, runs: 1, nth: 3, only: "Worker Killed", moment: "mid-stream"}
	if got := names(one); got != `["worker killed/3"]` {
		t.Errorf("one run alone is scheduled as %s", got)
	}
}

func TestEveryMomentAndFaultCanBeNamed(t *testing.T) {
	for _, f := range faults {
		for _, name := range append(append([]string{}, f.moments...), f.short...) {
			if momentOf(name) == nil {
				t.Errorf("fault %s names the moment %q that there is not", f.name, name)
			}
		}
	}
}
