package conversation

import (
	"fmt"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// The spending part enforces the session's budget. It owns Budget of the state, and Warned,
// Over and Stopped of Spent. It may call the delivery and the turn's time.
//
// An interrupt names the turn, so a second one cannot hit another turn. PumpState.Budget
// tells the next pump how far it got.
type spending struct {
	*core
	time     *turnTime
	delivery *delivery

	timeUp bool // this pump's clock interrupted the turn
}

func (b *spending) clear() {
	b.st.Budget, b.st.Spent.Over, b.st.Spent.Stopped, b.timeUp = "", "", false, false
}

func budgetID(turn string) string { return "budget." + turn }

func (b *spending) wake(soon func(time.Duration)) {
	if at, bounded := b.timeLeft(); bounded {
		soon(at)
	}
}

// resume takes up an earlier pump's interrupt.
func (b *spending) resume() {
	if b.st.TurnID == "" || b.st.Budget == "" {
		return
	}
	s := b.delivery.interruptOfOurs()
	s.uncertain = true
	if b.st.Budget == protocol.Acknowledged {
		s.settle(protocol.Acknowledged, "")
		b.delivery.interruptAt = 1 // the turn gets the whole Limits.Request again
	}
}

// check is called when a count has grown. It warns once for each bound.
func (b *spending) check() {
	if b.st.TurnID == "" {
		return
	}
	for _, u := range BudgetUses(b.lim.Budget, &b.st) {
		if useIsNear(u) && !u.Warned {
			budgetWarned(&b.st.Spent.Warned, u)
			b.record(u, fmt.Sprintf("%s: %d %% are reached", u.Spend(), 100*u.Used/u.Limit))
		}
		if useIsOver(u) && b.st.Budget == "" {
			b.record(u, u.Spend()+": the turn is interrupted")
			b.interrupt(u)
		}
	}
}

func (b *spending) record(u protocol.BudgetUse, text string) {
	b.entry(protocol.Entry{Type: protocol.EntryState, Turn: b.st.Turn, Status: "budget", Text: text,
		Data: map[string]string{"budget": u.Name, "used": fmt.Sprint(u.Used), "limit": fmt.Sprint(u.Limit)}})
}

func (b *spending) interrupt(u protocol.BudgetUse) {
	b.st.Budget, b.st.Spent.Over = protocol.Decided, u.Name
	if b.delivery.find(budgetID(b.st.TurnID)) == nil { // the clock may have caused an interrupt
		b.delivery.interruptOfOurs()
	}
}

// stopping reports whether the turn is being interrupted. Then people are asked nothing
// more.
func (b *spending) stopping() bool { return b.st.TurnID != "" && (b.st.Budget != "" || b.timeUp) }

func (b *spending) commandBegun() {
	b.st.Spent.Commands++
	b.check()
}

// checkTime is called after each line. A turn that the line ended does not exceed its time.
func (b *spending) checkTime() {
	if b.time.timed && b.lim.Budget.Time > 0 {
		b.check()
	}
	b.time.timed = false
}

// timeLeft returns when, in the pump's time, the session's time is used up.
func (b *spending) timeLeft() (at time.Duration, bounded bool) {
	if b.lim.Budget.Time <= 0 || b.st.TurnID == "" || b.stopping() || b.st.waits() {
		return 0, false
	}
	left := b.lim.Budget.Time - time.Duration(b.st.Spent.TimeMS)*time.Millisecond
	return max(b.time.countedAt, b.time.since) + max(left, 0), true
}

// timeIsUp interrupts a turn whose time runs out while codex is silent. Entries depend on
// the next line with a time, not on the clock.
func (b *spending) timeIsUp() {
	if at, bounded := b.timeLeft(); bounded && b.now >= at {
		b.timeUp = true
		b.delivery.interruptOfOurs()
	}
}

// keep tells the next pump how far the interrupt got, and whether a person wanted one.
func (b *spending) keep() {
	b.st.Spent.Stopped = b.st.TurnID != "" && b.delivery.interruptedByOthers()
	for _, s := range b.delivery.sends {
		switch {
		case !s.own || s.Kind != SendInterrupt || b.st.Budget == "":
		default:
			b.st.Budget = s.told()
		}
	}
}

// timeSlack is exceeded's tolerance in milliseconds: an older codex reports a turn's end in
// whole seconds.
const timeSlack = int64(time.Second / time.Millisecond)

// exceeded returns why the pump interrupted a turn, or nil. An interrupt by the clock is
// recorded nowhere, so only the time used shows it.
func (b *spending) exceeded(status string) *protocol.Problem {
	if status != "interrupted" {
		return nil
	}
	name := b.st.Spent.Over
	for _, u := range BudgetUses(b.lim.Budget, &b.st) {
		late := name == "" && u.Name == protocol.BudgetTime && u.Limit > 0 && u.Used+timeSlack >= u.Limit && !b.delivery.interruptedByOthers()
		if u.Name == name || late {
			p := problem(protocol.EndBudget, u.Spend())
			p.Hint = u.Raise(b.in.Session)
			return p
		}
	}
	return nil
}
