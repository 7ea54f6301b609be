package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/scenario"
	"fairlead.dev/fairlead/internal/protocol"
)

// judge compares what happened with what must have happened, before the session
// is closed.
func (r *run) judge(ctx context.Context, res *scenario.Result) error {
	journals, err := r.readJournals()
	if err != nil {
		return err
	}
	for n, data := range r.journals {
		journals[n] = data
	}
	if r.lost != nil {
		if journals[1], err = r.lost(); err != nil {
			return err
		}
	}
	if len(journals) == 0 {
		return errors.New("there is no journal to judge by")
	}
	var read []journal
	var whole []byte // of all incarnations: what was started again is in a later one
	for n := 1; n <= len(journals); n++ {
		data, ok := journals[n]
		if !ok {
			return fmt.Errorf("the journal of incarnation %d is not there", n)
		}
		read, whole = append(read, scan(data)), append(whole, data...)
	}
	var entries []protocol.Entry
	err = again(ctx, "the transcript of "+r.id, func(ctx context.Context) (err error) {
		entries, err = lab.Lines[protocol.Entry](ctx, r.Lab, "transcript", r.id)
		return err
	})
	if err != nil {
		return err
	}
	d, err := r.until(ctx, r.id, "to be seen", func(protocol.SessionDetail) bool { return true })
	if err != nil {
		return err
	}
	r.judgeEvents(res, read, entries)
	r.judgeAnswers(res, read, d)
	r.judgeMessages(res, read, d)
	r.judgeTurns(res, read, d)
	r.judgeAsked(res, d.View.ThreadID)
	if p := r.moment.point; p != nil {
		p.behind(r, res, whole, entries, d)
	}
	if !r.moment.closes {
		return r.judgeEffects(res)
	}
	return nil
}

var codexEntry = regexp.MustCompile(`^i(\d+)\.(\d+)(?:-\d+)?$`)

// judgeEvents checks that each event stands once, in order, with its text, and
// that there are no others.
func (r *run) judgeEvents(res *scenario.Result, read []journal, entries []protocol.Entry) {
	type place struct {
		inc int
		at  int64
	}
	at := map[place][]protocol.Entry{}
	ids := map[string]bool{}
	var last place
	for i, e := range entries {
		if e.Seq != int64(i+1) {
			res.Find(eventLost, "entry %d of the transcript has seq %d", i+1, e.Seq)
		}
		if ids[e.ID] {
			res.Find(eventRepeated, "%s", "entry "+e.ID+" stands there twice")
		}
		ids[e.ID] = true
		m := codexEntry.FindStringSubmatch(e.ID)
		if m == nil {
			continue // an entry that the workflow wrote
		}
		inc, _ := strconv.Atoi(m[1]) // digits, as the pattern says
		off, _ := strconv.ParseInt(m[2], 10, 64)
		p := place{inc, off}
		at[p] = append(at[p], e)
		if p.inc < last.inc || p.inc == last.inc && p.at < last.at {
			res.Find(wrong, "entry %s comes after one of %d.%d", e.ID, last.inc, last.at)
		}
		last = p
	}
	torn := false
	for n, j := range read {
		for _, t := range j.told {
			p := place{n + 1, t.at}
			found := 0
			for _, e := range at[p] {
				if t.kind == "" || string(e.Type) == t.kind {
					found++
					r.sameText(res, t, e)
				}
			}
			what := fmt.Sprintf("%s %s at %d.%d", t.kind, t.item, p.inc, p.at)
			switch {
			case found == 0 && r.fault.torn && n == 0:
				torn = true // everything from here on
			case found > 0 && torn && n == 0:
				res.Find(eventLost, "%s", "what came before "+what)
			case found == 0:
				res.Find(eventLost, "%s", what)
			case found > 1:
				res.Find(eventRepeated, "%s", what)
			}
			delete(at, p)
		}
	}
	for p, es := range at {
		if es[0].Status == "budget" {
			continue // our own entry about budget use at this line
		}
		if p.inc < 1 || p.inc > len(read) || !read[p.inc-1].may[p.at] {
			res.Find(eventRepeated, "entry %s (%s %q) is nothing that codex said", es[0].ID, es[0].Type, es[0].Text)
		}
	}
}

func (r *run) sameText(res *scenario.Result, t told, e protocol.Entry) {
	if !t.any && e.Text != t.text && !(t.kind == "state" && strings.HasPrefix(e.Text, t.text)) || t.item != "" && e.Item != t.item {
		res.Find(wrong, "entry %s is %q of %s, codex said %q of %s", e.ID, e.Text, e.Item, t.text, t.item)
	}
}

// judgeAnswers checks that every request was resolved once, or is void or
// expired on record.
func (r *run) judgeAnswers(res *scenario.Result, read []journal, d protocol.SessionDetail) {
	requests, unresolved := 0, 0
	for n, j := range read {
		for id, times := range j.asked {
			requests++
			switch {
			case times > 1:
				res.Find(answerRepeated, "request %s of incarnation %d was resolved %d times", id, n+1, times)
			case times == 0:
				unresolved++
			}
		}
	}
	if requests != len(d.Approvals) {
		res.Find(answerLost, "codex asked %d times, on record are %s", requests, briefApprovals(d))
	}
	acknowledged := 0
	for _, a := range d.Approvals {
		switch a.State {
		case protocol.ApprovalDecided:
			if a.Ruling == nil || a.Decision.By != "policy" {
				res.Find(answerLost, "%s stays %s", a.ID, a.State)
			}
			acknowledged++ // by a policy: nobody waits for its acknowledgement; the journal shows that it reached codex
		case protocol.ApprovalAcknowledged:
			acknowledged++
		case protocol.ApprovalVoid, protocol.ApprovalExpired:
		case protocol.ApprovalSent:
			if !r.fault.ends { // it may have had its effect and is shown so
				res.Find(answerLost, "%s stays %s", a.ID, a.State)
			}
		default:
			res.Find(answerLost, "%s stays %s", a.ID, a.State)
		}
	}
	if !r.fault.ends && (unresolved > 0 || acknowledged != requests) && r.want == "completed" {
		res.Find(answerLost, "%d of %d requests are unresolved, approvals are %s", unresolved, requests, briefApprovals(d))
	}
	if acknowledged > requests-unresolved {
		res.Find(wrong, "%d of %d requests are resolved, approvals are %s", requests-unresolved, requests, briefApprovals(d))
	}
}

// judgeMessages checks that each of our messages reached codex, and the model,
// once.
func (r *run) judgeMessages(res *scenario.Result, read []journal, d protocol.SessionDetail) {
	heard := map[string]int{}
	for _, j := range read {
		for id, n := range j.heard {
			heard[id] += n
		}
		for id, n := range j.answers {
			if n > 1 {
				res.Find(answerRepeated, "our request %s was answered %d times", id, n)
			}
		}
	}
	model := map[string]int{}
	if d.View.ThreadID != "" {
		for _, m := range r.Model.UserMessages(d.View.ThreadID) {
			model[m]++
		}
	}
	for i, m := range r.said {
		if m.act {
			continue
		}
		if m.more {
			for text := range model {
				if strings.HasPrefix(text, m.text) {
					m.text = text
				}
			}
		}
		status := ""
		for _, t := range d.Turns {
			if t.N == i+1 {
				status = t.Status
			}
		}
		if heard[m.id] > 1 || model[m.text] > 1 {
			res.Find(answerRepeated, "message %s: codex echoed it %d times, the model saw it %d times", m.id, heard[m.id], model[m.text])
		}
		// Codex may have forgotten a turn that its end cut off.
		if must := status == "completed" || !r.fault.ends; must && (heard[m.id] == 0 || model[m.text] == 0) {
			res.Find(answerLost, "message %s (turn %d is %q): codex echoed it %d times, the model saw it %d times", m.id, i+1, status, heard[m.id], model[m.text])
		}
	}
	if len(d.Turns) != len(r.said) && len(r.said) < 10 {
		res.Find(wrong, "%d messages were sent, turns are %s", len(r.said), briefTurns(d))
	}
}

// judgeTurns checks that turns ended as codex said, or else as interrupted or
// unknown.
func (r *run) judgeTurns(res *scenario.Result, read []journal, d protocol.SessionDetail) {
	for _, t := range d.Turns {
		said := ""
		for _, j := range read {
			if s, ok := j.turns[t.TurnID]; ok {
				said = s
			}
		}
		switch {
		case said != "" && said != t.Status:
			res.Find(wrong, "turn %d is shown as %s, codex said %s", t.N, t.Status, said)
		case said == "" && !(r.fault.ends && slices.Contains([]string{"interrupted", "unknown"}, t.Status)):
			res.Find(wrong, "turn %d is shown as %s, codex said nothing of its end (%+v)", t.N, t.Status, t.Error)
		}
	}
	struck := d.Turns
	if n := slices.IndexFunc(struck, func(t protocol.TurnView) bool { return strings.HasPrefix(r.messageOf(t.N), "please ") }); n >= 0 {
		t := struck[n]
		if !r.fault.ends && t.Status != r.want {
			res.Find(wrong, "turn %d is %s, not %s (%+v)", t.N, t.Status, r.want, t.Error)
		}
		if t.Status == "completed" && t.FinalText != r.text {
			res.Find(wrong, "turn %d says %q, not %q", t.N, t.FinalText, r.text)
		}
	}
	if r.thread != "" && d.View.ThreadID != r.thread {
		res.Find(wrong, "the thread was %s and is %s", r.thread, d.View.ThreadID)
	}
	if p := d.View.Process; !r.fault.ends && (p == nil || p.Incarnation != 1) {
		res.Find(wrong, "the process is %+v: codex was started again", p)
	}
	if want := protocol.Idle; !r.moment.closes && d.View.State != want {
		res.Find(wrong, "the session is %s, not %s", d.View.State, want)
	}
}

func (r *run) messageOf(n int) string {
	if n < 1 || n > len(r.said) {
		return ""
	}
	return r.said[n-1].text
}

func (r *run) judgeEffects(res *scenario.Result) error {
	lines, err := r.lines()
	if err != nil {
		return err
	}
	for word, n := range lines {
		if n > r.effects[word].max {
			res.Find(answerRepeated, "command %q took effect %d times, may %d", word, n, r.effects[word].max)
		}
	}
	for word, e := range r.effects {
		if lines[word] < e.min {
			res.Find(answerLost, "command %q took effect %d times, must %d", word, lines[word], e.min)
		}
	}
	return nil
}

// leave closes the session and looks for leftovers.
func (r *run) leave(ctx context.Context, res *scenario.Result) error {
	if !r.moment.closes {
		r.seen = processesOf(r.id, r.dir())
		if err := r.signal(ctx, r.id, protocol.SignalClose, protocol.Close{By: "faults"}); err != nil {
			return err
		}
	}
	d, err := r.until(ctx, r.id, "to be closed", func(d protocol.SessionDetail) bool { return d.View.State == protocol.Closed })
	if err != nil {
		return err
	}
	if c := d.View.Close; c == nil || !c.Wiped || !c.Removed || c.Archive == "" {
		res.Find(leftOver, "the session closed with %+v, error %+v", c, d.View.Error)
	}
	if _, err := os.Lstat(r.dir()); !errors.Is(err, os.ErrNotExist) {
		res.Find(leftOver, "the folder %s is still there (%v)", r.dir(), err)
	}
	for _, p := range processesOf(r.id, r.dir()) {
		res.Find(leftOver, "process %d: %.200s", p.pid, p.command)
	}
	for _, p := range r.seen {
		if p.lives() && !slices.ContainsFunc(processesOf(r.id, r.dir()), func(q process) bool { return q.pid == p.pid }) && !strings.Contains(p.command, "sshd") {
			res.Find(leftOver, "process %d that was the session's: %.200s", p.pid, p.command)
		}
	}
	return nil
}
