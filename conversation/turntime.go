package conversation

import (
	"time"

	"fairlead.dev/fairlead/conversation/wire"
)

// A turnTime counts the time of the running turn, by codex's clock for the budget, and by
// the pump's clock for Limits.Turn. It owns Spent.TimeMS and Spent.CountedMS of the state,
// and calls no other part.
type turnTime struct {
	*core
	began     time.Time     // when the pump began
	since     time.Duration // when this pump first saw the turn run
	behind    bool          // the turn ran before this attempt
	waited    time.Duration // part of the turn's time, by codex's clock, spent waiting for people
	countedAt time.Duration // when the turn's time was last counted
	timed     bool          // the current line added to the turn's time
}

// resume continues a turn that began before this attempt.
func (t *turnTime) resume() {
	t.began = t.opt.clock()
	t.behind = t.st.TurnID != ""
}

// turnBegins starts to count the time of a new turn.
func (t *turnTime) turnBegins() {
	t.since, t.countedAt = t.now, t.now
	t.behind, t.waited, t.st.Spent.CountedMS = !t.caught, 0, 0
}

// turnEnds stops counting.
func (t *turnTime) turnEnds() { t.st.Spent.CountedMS = 0 }

// within returns how long before this attempt a time of codex's clock was. It returns at
// most Options.Since, because the clocks may differ.
func (t *turnTime) within(ms int64) time.Duration {
	return min(max(t.began.Sub(time.UnixMilli(ms)), 0), max(t.opt.Since, 0))
}

// ends returns when the turn's time is up, in the pump's time.
func (t *turnTime) ends() time.Duration {
	var before time.Duration
	switch {
	case !t.behind:
	case t.st.TurnStartedMS > 0:
		before = t.within(t.st.TurnStartedMS)
	default:
		before = t.opt.Since
	}
	return t.since - before + t.waited + t.lim.Turn
}

// waitedUntilNow returns waited, plus the time since the newest line if the turn
// now waits for people.
func (t *turnTime) waitedUntilNow() time.Duration {
	if t.st.TurnID == "" || !t.st.waits() || t.st.AtMS == 0 {
		return t.waited
	}
	return t.waited + min(max(t.opt.clock().Sub(t.at()), 0), max(t.opt.Since, 0)+t.now)
}

// dated takes a time that the current line mentions. An older codex does not say when it
// sent a line (EventTimes), so the line has no other time.
func (t *turnTime) dated(ms int64) {
	t.st.AtMS = max(t.st.AtMS, ms)
	t.passes(ms)
}

// counts starts to count a turn's time when codex says that the turn began. It does not
// start at an earlier line that shows the turn, because which line does depends on what the
// pump had to send.
func (t *turnTime) counts(ms int64) {
	if t.st.Spent.CountedMS == 0 {
		t.st.Spent.CountedMS, t.countedAt = ms, t.now
	}
	if ms == 0 {
		t.st.Spent.CountedMS = anew
	}
}

// anew is the CountedMS of a turn whose time is counted from the next time that the journal
// tells.
const anew = -1

// passes counts the running turn's time up to a time that the current line tells,
// unless the turn waited for people until then.
func (t *turnTime) passes(ms int64) {
	if t.st.TurnID == "" || t.st.Spent.CountedMS == 0 || ms <= t.st.Spent.CountedMS || ms <= 0 {
		return
	}
	from := t.st.Spent.CountedMS
	t.st.Spent.CountedMS, t.countedAt = ms, t.now
	if from == anew {
		return
	}
	if t.st.waits() {
		t.waited += time.Duration(ms-from) * time.Millisecond
		return
	}
	t.st.Spent.TimeMS += ms - from
	t.timed = true
}

// waitEnds restarts the counting if codex does not say when the answer came.
func (t *turnTime) waitEnds() {
	t.countedAt = t.now
	if !wire.Has(t.st.CodexVersion, wire.EventTimes) {
		t.st.Spent.CountedMS = anew
	}
}
