package conversation

import (
	"time"

	"fairlead.dev/fairlead/conversation/wire"
)

// A turnTime counts the turn's time, by codex's clock for the budget, and by the pump's for
// Limits.Turn. It owns Spent.TimeMS and Spent.CountedMS of the state, and calls no part.
type turnTime struct {
	*core
	began     time.Time
	since     time.Duration // when this pump first saw the turn
	behind    bool          // the turn ran before this attempt
	waited    time.Duration // the turn's wait for people, by codex's clock
	countedAt time.Duration
	timed     bool // the line added to the turn's time
}

func (t *turnTime) resume() {
	t.began = t.opt.clock()
	t.behind = t.st.TurnID != ""
}

func (t *turnTime) turnBegins() {
	t.since, t.countedAt = t.now, t.now
	t.behind, t.waited, t.st.Spent.CountedMS = !t.caught, 0, 0
}

func (t *turnTime) turnEnds() { t.st.Spent.CountedMS = 0 }

// within returns how long before this attempt a time of codex's clock was, at most
// Options.Since, because the clocks may differ.
func (t *turnTime) within(ms int64) time.Duration {
	return min(max(t.began.Sub(time.UnixMilli(ms)), 0), max(t.opt.Since, 0))
}

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

// waitedUntilNow adds to waited the time since the newest line if the turn waits for
// people.
func (t *turnTime) waitedUntilNow() time.Duration {
	if t.st.TurnID == "" || !t.st.waits() || t.st.AtMS == 0 {
		return t.waited
	}
	return t.waited + min(max(t.opt.clock().Sub(t.at()), 0), max(t.opt.Since, 0)+t.now)
}

// dated takes a time that the line mentions. A codex without EventTimes gives no other.
func (t *turnTime) dated(ms int64) {
	t.st.AtMS = max(t.st.AtMS, ms)
	t.passes(ms)
}

// counts starts to count when codex says that the turn began. It ignores earlier lines that
// show the turn, because they depend on what the pump sent.
func (t *turnTime) counts(ms int64) {
	if t.st.Spent.CountedMS == 0 {
		t.st.Spent.CountedMS, t.countedAt = ms, t.now
	}
	if ms == 0 {
		t.st.Spent.CountedMS = anew
	}
}

// anew is the CountedMS of a turn that counts from the journal's next time.
const anew = -1

// passes counts up to a time of the current line, unless the turn waited for people.
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

// waitEnds counts anew if codex does not say when the answer came.
func (t *turnTime) waitEnds() {
	t.countedAt = t.now
	if !wire.Has(t.st.CodexVersion, wire.EventTimes) {
		t.st.Spent.CountedMS = anew
	}
}
