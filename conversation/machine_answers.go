package conversation

import (
	"slices"
	"strconv"
	"strings"
)

// response handles codex's answer to one of our requests.
func (m *machine) response(id string, r *message) {
	if strings.HasPrefix(id, sendPrefix) {
		if of, try, ok := sendOf(id); ok {
			m.delivery.answered(of, try, r)
		}
		return
	}
	i := strings.LastIndexByte(id, '.')
	if i < 0 {
		return
	}
	try, err := strconv.Atoi(id[i+1:])
	if err != nil {
		return
	}
	// Answers to what an earlier pump asked are still useful, except for its thread:
	// only the thread that this pump asks for counts.
	j := strings.LastIndexByte(id[:i], '.')
	if j < 0 {
		return
	}
	prefix := id[:j]
	called, _, _ := strings.Cut(id[j+1:i], "-")
	name := askName(slices.Index(askNames[:], called))
	if name < 0 {
		return
	}
	ours := prefix == m.in.Prefix && (m.asks.id(name, try) == id || name == askLogin)
	a := m.asks.all[name]
	if r.Error != nil && r.Error.Code == CodeOverloaded {
		if a != nil && ours && !a.done && try >= a.try {
			a.try, a.sent, a.next = try+1, false, m.now+backoff(try)
		}
		return
	}
	if a != nil && ours {
		if a.done {
			return // a second attempt asked again; the first answer counts
		}
		a.done = true
		m.opening.askedBefore()
	}
	switch {
	case name == askInit:
		m.opening.initialized(r)
	case name == askLogin && ours && m.opening.fresh:
		generation, _ := dashed(id[j+1 : i])
		m.logins.loginAnswered(generation, r)
	case name == askToken:
		m.logins.given(dashed(id[j+1 : i]))
	case name == askAccount:
		m.opening.accountRead(r)
	case name == askModels:
		m.questions.modelsListed(r)
	case name == askNaming && ours:
		m.questions.threadNamed(r)
	case name == askThread && ours && m.opening.fresh:
		m.opening.threadOpened(r)
	case name == askHistory && ours:
		m.delivery.historyRead(r)
	case name == askBarrier && ours:
		m.delivery.barrierAnswered()
	}
}
