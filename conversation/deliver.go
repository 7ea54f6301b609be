package conversation

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// sendPrefix begins the wire ids of Sends: send/<ID>/<try>. They name the Send and
// not the pump, so any later pump of the session recognises the answer.
const sendPrefix = "send/"

// A send is a Send and its delivery in this pump.
type send struct {
	Send
	state     DeliveryState
	text      string // why it was rejected or is void
	uncertain bool   // an earlier pump or attempt may have written it
	own       bool   // the pump's own; not reported
	announced bool   // Options.Settled was called for it
	unfit     string // why it was declined instead of answered as decided
	early     bool   // an interrupt of a turn that codex had accepted but not yet begun

	tried bool
	wrote bool // written in this pump and not refused for overload since
	try   int
	asked time.Duration // when it was first written
	first time.Duration // when it was last written
	next  time.Duration // do not write before this time
}

func (s *send) settled() bool {
	return s.state == Acknowledged || s.state == Rejected || s.state == Void
}

// told returns the state that the workflow gets. Decided would make the workflow
// send the message again, even to another process, so it is reported only if nobody
// can have written it.
func (s *send) told() DeliveryState {
	if s.state == Decided && s.uncertain {
		return Sent
	}
	return s.state
}

func (s *send) settle(state DeliveryState, why string) {
	if !s.settled() {
		s.state, s.text = state, why
	}
}

// tellSettled calls Options.Settled once for each settled send.
func (m *machine) tellSettled() {
	if m.opt.Settled == nil {
		return
	}
	for _, s := range m.sends {
		if s.settled() && !s.announced && !s.own {
			s.announced = true
			m.opt.Settled(Delivery{ID: s.ID, State: s.state, Error: excerpt(m.redact(s.text), maxProblem)})
		}
	}
}

func (s *send) written(now time.Duration) {
	if !s.tried {
		s.tried, s.asked = true, now
	}
	s.wrote, s.state, s.first = true, Sent, now
}

func (m *machine) find(id string) *send {
	for _, s := range m.sends {
		if s.ID == id {
			return s
		}
	}
	return nil
}

// barrier reports whether it is now certain which messages codex has. If an earlier
// attempt may have written one and the journal does not show it, codex is asked to
// read the thread: it answers that only after it has answered everything written
// before.
func (m *machine) barrier() bool {
	need, history := false, false
	for _, s := range m.sends {
		if !s.doubtful() {
			continue
		}
		need = true
		// An earlier process may have got it and died before it said so.
		history = history || s.Uncertain && s.Kind == SendTurn
	}
	if !need {
		return true
	}
	if m.asks.all[askBarrier] == nil {
		m.asks.all[askBarrier] = &ask{method: methodRead, limit: m.lim.Request,
			params: threadReadParams{ThreadID: m.st.ThreadID}}
	}
	if history && m.asks.all[askHistory] == nil {
		m.asks.all[askHistory] = &ask{method: methodTurns, limit: m.lim.Request,
			params: turnsListParams{ThreadID: m.st.ThreadID, Limit: 3, ItemsView: "full"}}
	}
	m.asks.send(askHistory)
	m.asks.send(askBarrier)
	if !m.barred || history && !m.asks.all[askHistory].done {
		return false
	}
	for _, s := range m.sends {
		if s.looked() {
			s.uncertain = false
		}
	}
	return true
}

// doubtful reports whether the pump must find out if codex has the message.
func (s *send) doubtful() bool {
	return !s.settled() && s.uncertain && !s.wrote && s.looked()
}

// looked reports whether codex acts on the message each time it is sent, so that
// the pump must look for it first.
func (s *send) looked() bool {
	return s.Kind == SendTurn || s.Kind == SendSteer || s.Kind == sendTell
}

// ascertain finds out, after the end of a turn, whether messages that were to steer
// the turn came in time. Those that did not will become turns of their own.
func (m *machine) ascertain() {
	if m.canceled || !m.barrier() {
		return
	}
	for _, s := range m.sends {
		if s.Kind == SendSteer && !s.wrote {
			s.settle(Void, "the turn ended first")
		}
	}
}

// ascertained reports whether that is known, and whether a Tell in doubt is
// resolved. A message that this pump has written is answered in any case.
func (m *machine) ascertained() bool {
	for _, s := range m.sends {
		if s.Kind == SendSteer && !s.settled() || s.Kind == sendTell && s.doubtful() {
			return false
		}
	}
	return true
}

func (m *machine) barrierAnswered() { m.barred = true }

// historyRead looks for messages that an earlier codex process took before it died.
// Their turns ended with it.
func (m *machine) historyRead(r *message) {
	m.actsInDoubt()
	var a struct {
		Data []struct {
			wireTurn
			Items []wireItem `json:"items"`
		} `json:"data"`
	}
	if r.Error != nil || json.Unmarshal(r.Result, &a) != nil || !Has(m.st.CodexVersion, ClientIDs) {
		// An older codex: the journal has to be enough. But a message for another process
		// is not in this journal.
		for _, s := range m.sends {
			if s.doubtful() && s.Kind == SendTurn && s.Incarnation > 0 && s.Incarnation < m.st.Cursor.Incarnation {
				s.settle(Void, "codex cannot say whether it had the message before its process ended")
			}
		}
		return
	}
	for _, turn := range a.Data {
		for _, it := range turn.Items {
			if it.Type != "userMessage" || it.ClientID == "" || turn.Status == "inProgress" {
				continue
			}
			if s := m.find(it.ClientID); s != nil && !s.settled() && s.uncertain {
				s.settle(Acknowledged, "")
				switch {
				case s.Kind != SendTurn || m.turnEnd != nil:
				case m.st.TurnID == "":
					m.beginTurn(turn.ID, s.Turn)
					m.endTurn(turn.Status, nil)
				case m.st.Foreign:
					m.endedBefore(turn.ID, turn.Status, s.Turn)
				}
			}
		}
	}
}

// deliver writes what is due, in order. Everything waits for the answer to a
// message that begins a turn, because a steer or an interrupt needs the turn's id,
// and to a Tell, because the next turn must have it.
func (m *machine) deliver() {
	behind := false // a message waits for the end of a turn that codex began
	for _, s := range m.sends {
		switch {
		case s.settled(), m.tellWaits(s):
			continue
		case s.wrote && (s.Kind == SendTurn || s.Kind == sendTell):
			return
		case s.wrote:
			continue
		case s.next > m.now:
			return
		}
		switch s.Kind {
		case sendTell:
			m.sendTell(s)
			return
		case SendTurn:
			if m.sendTurn(s); s.wrote {
				return
			}
			behind = !s.settled()
		case SendSteer:
			if !behind { // else it is for that message's turn
				m.sendSteer(s)
			}
		case SendDecision:
			m.sendDecision(s)
		case SendInterrupt:
			m.sendInterrupt(s)
		}
	}
}

func (m *machine) sendTurn(s *send) {
	if m.st.Foreign {
		return // it waits for the turn's end
	}
	if m.st.TurnID != "" {
		// codex would silently take it into the running turn.
		s.settle(Rejected, "a turn is running, and a new message would steer it")
		return
	}
	if s.Do != "" {
		m.sendAct(s)
		return
	}
	if s.Unsayable != "" {
		s.settle(Rejected, s.Unsayable)
		return
	}
	m.ourRequest(s, methodTurnStart, turnStartParams{
		ThreadID: m.st.ThreadID, Input: s.turnInput(),
		MessageID: s.ID, Model: s.Model, Effort: s.Effort, Personality: m.in.Thread.Personality, Schema: s.Schema,
	})
}

func (m *machine) sendSteer(s *send) {
	if m.st.TurnID == "" || s.Turn > 0 && s.Turn != m.st.Turn {
		s.settle(Void, "no turn is running, or not that one")
		return
	}
	if s.Unsayable != "" {
		s.settle(Rejected, s.Unsayable)
		return
	}
	m.ourRequest(s, methodTurnSteer, turnSteerParams{
		ThreadID: m.st.ThreadID, TurnID: m.st.TurnID, MessageID: s.ID,
		Input: s.turnInput(),
	})
}

func (m *machine) sendInterrupt(s *send) {
	if m.st.TurnID == "" {
		s.settle(Void, "no turn is running")
		return
	}
	m.ourRequest(s, methodInterrupt, turnInterruptParams{ThreadID: m.st.ThreadID, TurnID: m.st.active()})
}

// interruptNow sends interrupts before a long backlog is read, to stop a codex that
// writes faster than we read. If their turn has ended, codex says so.
func (m *machine) interruptNow() {
	for _, s := range m.sends {
		if s.Kind == SendInterrupt && !s.settled() {
			m.sendInterrupt(s)
		}
	}
}

// tooEarly schedules an interrupt again that codex refused although a turn runs.
// codex answers turn/start before the turn is active (measured on 0.169); an
// interrupt in between is refused and would be lost. If the turn has ended, its end
// is in the journal and voids the interrupt.
func (m *machine) tooEarly(s *send, try int) bool {
	if s.Kind != SendInterrupt || s.settled() || m.st.TurnID == "" {
		return false
	}
	if try >= s.try {
		s.early = true
		s.try, s.wrote, s.state, s.next = try+1, false, Decided, m.now+backoff(try)
	}
	return true
}

// nowActive makes interrupts that came too early due at once.
func (m *machine) nowActive() {
	for _, s := range m.sends {
		if s.early && !s.wrote {
			s.next = m.now
		}
	}
}

func (m *machine) ourRequest(s *send, method string, params any) {
	s.written(m.now)
	m.write(outgoing{ID: sendPrefix + s.ID + "/" + strconv.Itoa(s.try), Method: method, Params: params})
}

// sendDecision answers a request that is still open. Answering twice is harmless
// (codex acts on the first answer and ignores the rest), so a later attempt need
// not look first.
func (m *machine) sendDecision(s *send) {
	switch {
	case s.Incarnation != m.st.Cursor.Incarnation:
		s.settle(Void, "the process that asked is gone")
		return
	case m.st.openAt(s.RPC) < 0:
		s.settle(Void, "the request is not open any more")
		return
	}
	result, err := m.decision(s.Send)
	if err != nil {
		m.declineInstead(s, err)
		return
	}
	s.written(m.now)
	m.write(outgoing{ID: s.RPC, Result: result})
}

// decision returns the answer for codex. It adds secret answers to the Redactor.
func (m *machine) decision(s Send) (any, error) {
	a := m.demands[idKey(s.RPC)]
	i := m.st.openAt(s.RPC)
	s.ForSession = s.ForSession && i >= 0 && m.st.Open[i].Remembers
	s.Answers = a.real(s.Answers, m.redact)
	if a != nil && m.opt.Redactor != nil {
		for _, q := range a.Questions {
			if q.Secret {
				m.opt.Redactor.Add(s.Answers[q.ID]...)
			}
		}
	}
	return answerFor(s, a, m.st.CodexVersion)
}

func unfitText(why error) string {
	return "codex was told no, since the decision does not fit what it asked: " + why.Error()
}

// declineInstead declines a request whose decision does not fit, so that codex does
// not wait for ever. The decision's sender learns why.
func (m *machine) declineInstead(s *send, why error) {
	no := s.Send
	no.Outcome, no.Reason = Decline, why.Error()
	result, err := answerFor(no, nil, m.st.CodexVersion)
	if err != nil {
		s.settle(Rejected, why.Error())
		return
	}
	m.log.Warn("declined, since the decision does not fit", "send", s.ID, "error", m.redact(why.Error()))
	s.unfit = unfitText(why)
	s.written(m.now)
	m.write(outgoing{ID: s.RPC, Result: result})
}

// sendAnswered handles codex's answer to a Send, perhaps of an earlier attempt or
// pump.
func (m *machine) sendAnswered(id string, try int, r *message) {
	s := m.find(id)
	if r.Error != nil {
		m.sendRefused(s, id, try, r.Error)
		return
	}
	if s == nil {
		return
	}
	var a turnAnswer
	if r.Result != nil {
		if err := json.Unmarshal(r.Result, &a); err != nil {
			m.log.Warn("unreadable answer", "send", id, "error", err)
		}
	}
	if m.awaitsName(s, a.Turn.ID) {
		return
	}
	first := !s.settled()
	s.settle(Acknowledged, "")
	switch {
	case s.Kind == sendTell && first:
		m.told(s)
	case s.Kind == SendTurn && first:
		m.turnOf(s, a.Turn.ID)
	case s.Kind == SendInterrupt && m.interruptAt == 0:
		m.interruptAt = max(m.now, 1)
		m.st.Interrupted = m.st.Interrupted || first && m.st.TurnID != ""
	}
}

func (m *machine) sendRefused(s *send, id string, try int, e *RPCError) {
	if e.Code == CodeOverloaded {
		if s != nil && !s.settled() && try >= s.try {
			s.try, s.wrote, s.state, s.next = try+1, false, Decided, m.now+backoff(try)
		}
		return
	}
	if strings.HasPrefix(id, budgetID("")) && (s == nil || s.own) {
		m.refusedToStop(s, try, e.Message)
		return
	}
	if strings.Contains(e.Message, "no active turn") {
		if s != nil && !m.tooEarly(s, try) {
			s.settle(Void, "no turn is running")
		}
		return
	}
	if s != nil && s.Kind == SendSteer && notSteerable(e) {
		s.settle(Void, "the running turn takes no messages")
		return
	}
	if s != nil && m.otherTurn(s, try, e) {
		return
	}
	m.entry(Entry{Type: EntryError, Turn: m.st.Turn, Text: "codex refused a message: " + e.Message, Data: map[string]string{"message": id}})
	if s == nil || s.settled() {
		return
	}
	s.settle(Rejected, e.Message)
	if m.problem == nil && s.Kind != sendTell { // a turn can do without a Tell
		m.problem = m.opt.Redactor.problem(classifyAnswer(string(s.Kind), e))
	}
}

// echoed handles a user message from codex that has a Send's id.
func (m *machine) echoed(turnID, id string) {
	s := m.find(id)
	if s == nil || s.settled() || s.Kind != SendTurn && s.Kind != SendSteer {
		return
	}
	s.settle(Acknowledged, "")
	if s.Kind == SendTurn && (m.st.TurnID == "" || m.st.TurnID == turnID) {
		m.turnOf(s, turnID)
	}
}

// clean ends the commands that an interrupted turn left running: codex interrupts a
// turn without ending them.
func (m *machine) clean() {
	if m.wantsClean() && !m.canceled {
		m.asks.all[askClean].params = threadIDParams{ThreadID: m.st.ThreadID}
		m.asks.send(askClean)
	}
}

func (m *machine) wantsClean() bool {
	for _, s := range m.sends {
		if s.Kind == SendInterrupt && s.state == Acknowledged {
			return true
		}
	}
	return false
}

// cleaned reports whether they have ended. codex answers first and kills
// afterwards; only the finished item shows that a command is gone.
func (m *machine) cleaned() bool {
	if !m.wantsClean() {
		return true
	}
	for _, it := range m.st.Items {
		if it.Type == "commandExecution" {
			return false
		}
	}
	return m.asks.all[askClean].done
}
