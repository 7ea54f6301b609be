package conversation

import (
	"fmt"
	"strconv"
	"time"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// An ask is a request of ours that is no Send. Its id, <prefix>.<name>.<try>, is the same
// in all attempts, so a later attempt finds earlier answers in the journal.
type ask struct {
	method   string
	params   any
	limit    time.Duration
	optional bool  // nobody waits for the answer
	token    int64 // generation of a login's token

	try   int
	sent  bool
	tried bool
	asked time.Duration // when it was first sent
	first time.Duration // when it was last sent
	next  time.Duration // not to be sent before this time
	done  bool
}

type askName int

const (
	askInit askName = iota
	askAccount
	askModels
	askThread
	askHistory
	askBarrier
	askClean
	askLife
	askLogin
	askToken // sent after the answer to codex's request for a token
	askNaming
)

var askNames = [...]string{"initialize", "account", "models", "thread", "history", "barrier", "clean", "life", "login", "token", "name"}

// The asks part writes each ask once, repeats it after an overload, and gives up the pump
// when codex does not answer. It calls no part.
type asks struct {
	*core
	all [len(askNames)]*ask // nil: not to be asked
}

func (q *asks) send(name askName) {
	a := q.all[name]
	if a == nil || a.sent || a.done || a.next > q.now {
		return
	}
	if !a.tried {
		a.tried, a.asked = true, q.now
	}
	a.sent, a.first = true, q.now
	q.write(wire.Outgoing{ID: q.id(name, a.try), Method: a.method, Params: a.params})
}

func (q *asks) id(which askName, try int) string {
	name := askNames[which]
	if which == askBarrier || which == askHistory || which == askLife {
		// Only the answer to this attempt's own request counts.
		name += "-" + q.opt.nonce()
	}
	if a := q.all[which]; which == askLogin && a != nil {
		name += "-" + strconv.FormatInt(a.token, 10) // tells which token codex has
	}
	return q.in.Prefix + "." + name + "." + strconv.Itoa(try)
}

// tired gives up a question whose answer no turn needs, and reports whether it did so now.
func (q *asks) tired(name askName, what string) bool {
	a := q.all[name]
	if a.done || !a.tried || q.now-a.first < a.limit {
		return false
	}
	a.done = true
	q.log.Warn("codex did not " + what + " within " + a.limit.Round(time.Second).String())
	return true
}

// backoff grows from a quarter of a second to eight seconds.
func backoff(try int) time.Duration {
	return 250 * time.Millisecond << min(try, 5)
}

func (q *asks) wake(soon func(time.Duration)) {
	for _, a := range q.all {
		switch {
		case a == nil || a.done:
		case a.sent:
			soon(a.first + a.limit)
		case a.next > 0:
			soon(a.next)
		}
	}
}

// expire gives up the pump if an answer is overdue that is not optional.
func (q *asks) expire() {
	for _, a := range q.all {
		if a == nil || a.done || a.optional || !a.tried {
			continue
		}
		if !a.sent && q.now-a.asked >= a.limit { // codex reported overload all the time
			q.tooBusy()
			return
		}
		if !a.sent || q.now-a.first < a.limit {
			continue
		}
		kind := protocol.EndRequestTimeout
		if a.method == wire.MethodInitialize {
			kind = protocol.EndStartTimeout
		}
		q.giveUp(TimedOut, problem(kind, fmt.Sprintf("codex did not answer %s within %s", a.method, a.limit)))
		return
	}
}
