package standin

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

type turn struct {
	s      *Server
	thread *thread
	id     string
	past   *past
	stop   chan struct{} // closed by an interrupt
	once   sync.Once
	asks   atomic.Int32 // number of requests that wait for an answer
	late   []int        // requests that the end of the turn resolves
	items  int
	tokens int64
}

func (s *Server) turnStart(m message, p params) {
	t := s.find(m, p, "thread not found: ")
	if t == nil {
		return
	}
	text := textOf(p.Input)
	t.mu.Lock()
	if r := t.running; r != nil {
		t.mu.Unlock()
		// As in codex, a second message joins the running turn.
		s.answer(m.ID, object{"turn": wireTurn(r.id, "inProgress", []any{}, "notLoaded", 0)})
		r.hear(p.MessageID, text)
		return
	}
	u := &turn{s: s, thread: t, id: newID(), stop: make(chan struct{})}
	u.past = &past{ID: u.id, Status: "inProgress", Started: time.Now().Unix()}
	if err := t.record("turn_started", u.past); err != nil {
		t.mu.Unlock()
		s.refuse(m.ID, "failed to write rollout: "+err.Error())
		return
	}
	t.turns = append(t.turns, u.past)
	t.running = u
	t.mu.Unlock()
	first := wireTurn(u.id, "inProgress", []any{}, "notLoaded", 0)
	first["startedAt"] = nil
	s.answer(m.ID, object{"turn": first})
	u.status(active())
	s.notify("turn/started", object{"threadId": t.id, "turn": wireTurn(u.id, "inProgress", []any{}, "notLoaded", u.past.Started)})
	u.hear(p.MessageID, text)
	go u.run(parse(text))
}

func textOf(input []userInput) string {
	var texts []string
	for _, in := range input {
		texts = append(texts, in.Text)
	}
	return strings.Join(texts, "\n")
}

func (s *Server) turnSteer(m message, p params) {
	t := s.find(m, p, "thread not found: ")
	if t == nil {
		return
	}
	t.mu.Lock()
	r := t.running
	t.mu.Unlock()
	switch {
	case r == nil:
		s.refuse(m.ID, "no active turn to steer")
	case r.id != p.ExpectedTurnID:
		s.refuse(m.ID, fmt.Sprintf("expected active turn id `%s` but found `%s`", p.ExpectedTurnID, r.id))
	default:
		s.answer(m.ID, object{"turnId": r.id})
		r.hear(p.MessageID, textOf(p.Input))
	}
}

func (s *Server) turnInterrupt(m message, p params) {
	t := s.find(m, p, "thread not found: ")
	if t == nil {
		return
	}
	t.mu.Lock()
	r := t.running
	t.mu.Unlock()
	if r == nil || r.id != p.TurnID {
		s.refuse(m.ID, "no active turn to interrupt")
		return
	}
	s.answer(m.ID, object{})
	r.interrupt()
}

func (u *turn) interrupt() { u.once.Do(func() { close(u.stop) }) }

func (u *turn) flags() []string {
	if u.asks.Load() > 0 {
		return []string{"waitingOnApproval"}
	}
	return nil
}

func (u *turn) status(st object) {
	u.s.notify("thread/status/changed", object{"threadId": u.thread.id, "status": st})
}

func (u *turn) hear(clientID, text string) {
	m := said{Item: newID(), ClientID: clientID, Text: text}
	u.thread.mu.Lock()
	u.past.Messages = append(u.past.Messages, m)
	u.keep("user_message", m)
	u.thread.mu.Unlock()
	item := m.wire(nowMS())
	u.item("started", item)
	u.item("completed", item)
}

// keep appends to the rollout. The caller must hold the thread's mu.
func (u *turn) keep(kind string, payload any) {
	if err := u.thread.record(kind, payload); err != nil {
		fmt.Fprintln(u.s.errs, "codex: rollout:", err)
	}
}

// item reports an item's start or end, and records completed items.
func (u *turn) item(what string, item object) {
	at := nowMS()
	p := object{"item": item, "threadId": u.thread.id, "turnId": u.id}
	if what == "started" {
		p["startedAtMs"] = at
	} else {
		p["completedAtMs"], p["contentTokenCount"] = at, nil
		if item["type"] != "userMessage" {
			u.thread.mu.Lock()
			u.keep("item", item)
			u.thread.mu.Unlock()
		}
	}
	u.s.notify("item/"+what, p)
}

func (u *turn) nextItem(kind string) string {
	u.items++
	return fmt.Sprintf("%s_%s_%d", kind, u.id[len(u.id)-12:], u.items)
}

// usage is reported once after each answer of the model.
func (u *turn) usage() {
	u.tokens += 10
	sum := func(n int64) object {
		return object{"totalTokens": 2 * n, "inputTokens": n, "cachedInputTokens": 0, "outputTokens": n, "reasoningOutputTokens": 0, "cacheWriteInputTokens": 0}
	}
	u.s.notify("thread/tokenUsage/updated", object{"threadId": u.thread.id, "turnId": u.id,
		"tokenUsage": object{"total": sum(u.tokens), "last": sum(10), "modelContextWindow": 258400}})
	u.s.notify("account/rateLimits/updated", object{"rateLimits": object{"limitId": "codex"}})
}

func (u *turn) run(acts []act) {
	status := "completed"
	for _, a := range acts {
		if err := a(u); err != nil {
			status = "interrupted"
			break
		}
	}
	select {
	case <-u.stop:
		status = "interrupted"
	default:
	}
	u.end(status)
}

func (u *turn) end(status string) {
	t := u.thread
	t.mu.Lock()
	u.past.Status, u.past.Ended = status, time.Now().Unix()
	u.keep("turn_ended", object{"status": status, "ended": u.past.Ended})
	t.running = nil
	// Only the newest turns are ever requested.
	if n := len(t.turns); n > 8 {
		t.turns = append([]*past(nil), t.turns[n-8:]...)
	}
	u.past.Items = nil
	t.mu.Unlock()
	u.status(idle)
	w := wireTurn(u.id, status, []any{}, "summary", u.past.Started)
	w["completedAt"], w["durationMs"] = u.past.Ended, (u.past.Ended-u.past.Started)*1000
	u.s.notify("turn/completed", object{"threadId": t.id, "turn": w})
	for _, id := range u.late {
		u.resolved(id)
	}
}

// ask sends a request to the client. The answer is sent on the channel.
func (u *turn) ask(method string, params object) (id int, answer <-chan json.RawMessage) {
	c := make(chan json.RawMessage, 1)
	u.s.mu.Lock()
	id = u.s.nextAsk
	u.s.nextAsk++
	u.s.asked[id] = c
	u.s.mu.Unlock()
	u.s.send(object{"method": method, "id": id, "params": params})
	return id, c
}

func (u *turn) withdraw(id int) {
	u.s.mu.Lock()
	delete(u.s.asked, id)
	u.s.mu.Unlock()
}

func (u *turn) resolved(id int) {
	u.s.notify("serverRequest/resolved", object{"threadId": u.thread.id, "requestId": id})
}
