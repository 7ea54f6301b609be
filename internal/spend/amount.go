package spend

import (
	"fmt"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// An Amount is what was used.
type Amount struct {
	Tokens int64          `json:"tokens,omitempty"`
	Money  protocol.Money `json:"money,omitempty"`
}

// most is the largest Amount. Larger ones could not be read from a cell.
var most = Amount{Tokens: 1 << 62, Money: protocol.MostMoney}

// plus stops at most. Neither is negative.
func (a Amount) plus(b Amount) Amount {
	a, b = a.least(most), b.least(most)
	return Amount{min(a.Tokens, most.Tokens-b.Tokens) + b.Tokens, min(a.Money, most.Money-b.Money) + b.Money}
}

func (a Amount) less(b Amount) Amount { return Amount{a.Tokens - b.Tokens, a.Money - b.Money} }

// beyond returns what of a exceeds b.
func (a Amount) beyond(b Amount) Amount { return a.less(b).most(Amount{}) }

// most returns the larger of each member.
func (a Amount) most(b Amount) Amount {
	return Amount{max(a.Tokens, b.Tokens), max(a.Money, b.Money)}
}

// least returns the smaller of each member.
func (a Amount) least(b Amount) Amount {
	return Amount{min(a.Tokens, b.Tokens), min(a.Money, b.Money)}
}

// within reports whether no member of a is larger than that of b.
func (a Amount) within(b Amount) bool { return a.Tokens <= b.Tokens && a.Money <= b.Money }

// A Period is how long a budget lasts, by the calendar of UTC.
type Period string

// Periods.
const (
	Ever  Period = ""
	Day   Period = "day"
	Month Period = "month"
)

// at returns the period in which a time lies, as a part of keys.
func (p Period) at(t time.Time) string {
	switch t = t.UTC(); p {
	case Day:
		return t.Format("2006-01-02")
	case Month:
		return t.Format("2006-01")
	}
	return "all"
}

// End returns when the period in which a time lies ends; zero means never.
func (p Period) End(t time.Time) time.Time {
	y, m, d := t.UTC().Date()
	switch p {
	case Day:
		return time.Date(y, m, d+1, 0, 0, 0, 0, time.UTC)
	case Month:
		return time.Date(y, m+1, 1, 0, 0, 0, 0, time.UTC)
	}
	return time.Time{}
}

// Limits bound an account; 0 means no bound.
type Limits struct {
	Tokens int64
	Money  protocol.Money
	Every  Period
	// Rate is how many requests may begin in a minute of the clock.
	Rate int64
}

// over returns the first bound that an amount exceeds, in words.
func (l Limits) over(a Amount) (what string) {
	switch {
	case l.Tokens > 0 && a.Tokens > l.Tokens:
		return "tokens"
	case l.Money > 0 && a.Money > l.Money:
		return "money"
	}
	return ""
}

// Small takes the place of a limit that an account does not have, when a chunk is computed.
var Small = Amount{Tokens: 16_000_000, Money: 16 * protocol.Unit}

func (l Limits) chunk() Amount {
	of := Small
	if l.Tokens > 0 {
		of.Tokens = l.Tokens
	}
	if l.Money > 0 {
		of.Money = l.Money
	}
	return Amount{of.Tokens / 64, of.Money / 64}
}

// An Account is what a budget bounds. Kind and Name are parts of keys of the store.
type Account struct {
	Kind string // session, seed or tenant
	Name string
}

// SessionCells begins the keys of the cells of sessions, before the name of the account.
const SessionCells = Prefix + Session + "."

// Kinds of accounts.
const (
	Session = "session"
	Seed    = "seed"
	Tenant  = "tenant"
)

func (a Account) prefix() string { return Prefix + a.Kind + "." + a.Name + "/" }

// String names the account to people.
func (a Account) String() string { return a.Kind + " " + a.Name }

// An OverError says that a budget is used up.
type OverError struct {
	Account Account
	Bound   string // tokens or money
	Used    Amount // of all processes, without what the refused request wanted
	Limits  Limits
	// Ends is when the budget's period ends; zero means never.
	Ends time.Time
}

func (e *OverError) Error() string {
	share := fmt.Sprintf("%d of the %d tokens", e.Used.Tokens, e.Limits.Tokens)
	if e.Bound == "money" {
		share = fmt.Sprintf("%s of the %s in money", e.Used.Money, e.Limits.Money)
	}
	who := e.Account.String()
	if e.Account.Kind == Session {
		who = "the session" // its account has a name that nobody knows
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s has used %s that it may use", who, share)
	if e.Limits.Every != Ever {
		fmt.Fprintf(&b, " in a %s, which ends at %s", e.Limits.Every, e.Ends.Format("2006-01-02 15:04 MST"))
	}
	return b.String() + ", and this request needs more than the rest"
}

// A RateError says that the requests of a minute are used up.
type RateError struct {
	Account Account
	Limit   int64
	Until   time.Time // end of the minute
}

func (e *RateError) Error() string {
	return fmt.Sprintf("%s has begun the %d requests that it may begin in a minute", e.Account, e.Limit)
}
