package conversation

import (
	"fmt"
	"strconv"
	"time"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// An ask is a request of ours that is no Send, for example a step of the opening, the
// barrier, or the request to end commands that an interrupt left running. Its id is
// <prefix>.<name>.<try>, which is the same in all attempts of a pump. So a later attempt
// finds the answers to an earlier attempt in the journal and does not ask again.
type ask struct {
	method   string
	params   any
	limit    time.Duration
	optional bool  // nobody waits for the answer
	token    int64 // of a login: the token's generation

	try   int
	sent  bool
	tried bool
	asked time.Duration // when it was first sent
	first time.Duration // when it was last sent
	next  time.Duration // after an overload: do not send before this time
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
	askLife // a sign of life
	askLogin
	askToken  // sent after the answer to codex's request for a token
	askNaming // sets the thread's name
)

// askNames are the names of the asks in the ids of their JSON-RPC requests.
var askNames = [...]string{"initialize", "account", "models", "thread", "history", "barrier", "clean", "life", "login", "token", "name"}

// The asks of a pump are its requests to codex that are no Sends. Other parts set what to
// ask and take the answers. This part writes each ask once, repeats it after an overload,
// and gives up the pump when codex does not answer. It calls no part.
type asks struct {
	*core
	all [len(askNames)]*ask // nil: not to be asked
}

// send sends a request unless it was sent, was answered, or has to wait.
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
		name += "-" + strconv.FormatInt(a.token, 10) // so that the answer tells which token codex has
	}
	return q.in.Prefix + "." + name + "." + strconv.Itoa(try)
}

// tired gives up a question that codex does not answer. It is for questions whose answers a
// turn does not need. It reports whether it gave up now.
func (q *asks) tired(name askName, what string) bool {
	a := q.all[name]
	if a.done || !a.tried || q.now-a.first < a.limit {
		return false
	}
	a.done = true
	q.log.Warn("codex did not " + what + " within " + a.limit.Round(time.Second).String())
	return true
}

// backoff returns how long to wait before the next try: from a quarter of a second to eight
// seconds.
func backoff(try int) time.Duration {
	return 250 * time.Millisecond << min(try, 5)
}

// wake registers when an ask or its answer is due.
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

// expire gives up the pump if an answer that somebody waits for is overdue.
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
