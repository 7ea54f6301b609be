package workflows

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// carried takes the audit records that an activity carries, and returns the newest.
func (h *standIn) carried(b *audit.Batch) int64 {
	if b == nil {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.records = append(h.records, b.Lines...)
	return b.Last()
}

func (h *standIn) RunPump(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
	seq := h.carried(in.Audit)
	out, err := h.runPump(ctx, in)
	out.Audited = seq
	return out, err
}

func (h *standIn) runPump(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
	session := in.Claim.Session
	if h.isAway(in.Claim.Host.Name) {
		return h.lost(ctx, in)
	}
	if err := h.attach(session, in); err != nil {
		return pumps.RunPumpResult{}, err
	}
	what := h.befalls(session, diesBefore, diesAfter, isSilent)
	if what == diesBefore {
		h.detach(session, string(what))
		return pumps.RunPumpResult{}, lostWorker()
	}
	out, wait := h.step(session, in, activity.GetInfo(ctx).Attempt > 1 || in.Pump.Again > 0)
	if what != "" {
		h.unheard(session, out)
	}
	switch what {
	case isSilent:
		h.detach(session, string(what))
		<-activity.GetWorkerStopChannel(ctx) // nobody receives its result
		return pumps.RunPumpResult{}, lostWorker()
	case diesAfter:
		h.detach(session, string(what))
		return pumps.RunPumpResult{}, lostWorker()
	}
	if wait {
		if err := h.stay(ctx); err != nil {
			h.detach(session, "handed over")
			return pumps.RunPumpResult{}, err
		}
		out.Pump.Reason = conversation.PumpCancelled
		if what = h.befalls(session, diesBack); what != "" {
			h.unheard(session, out)
			h.detach(session, string(what))
			return pumps.RunPumpResult{}, lostWorker()
		}
	}
	h.detach(session, string(out.Pump.Reason))
	return out, nil
}

// lost answers as a pump whose host cannot be reached. It reports the loss if LostAfter is
// set, and otherwise tries forever.
func (h *standIn) lost(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
	if in.LostAfter > 0 {
		return pumps.RunPumpResult{HostLost: &protocol.HostLost{Since: time.Unix(1_800_000_000, 0).UTC(), Why: "no route to host"}}, nil
	}
	if err := h.stay(ctx); err != nil {
		return pumps.RunPumpResult{}, err
	}
	return pumps.RunPumpResult{}, ctx.Err()
}

// ProbeHosts reaches all hosts except those in away.
func (h *standIn) ProbeHosts(_ context.Context, in hosts.ProbeHostsInput) (hosts.ProbeHostsResult, error) {
	var out hosts.ProbeHostsResult
	for _, spec := range in.Hosts {
		found := hosts.HostProbed{Name: spec.Name, Facts: map[string]string{"os": "Linux"}}
		h.mu.Lock()
		if h.away[spec.Name] {
			found.Facts, found.Problem = nil, &protocol.Problem{Kind: protocol.ErrTypeUnreachable, Message: "no route to host"}
		}
		h.mu.Unlock()
		out.Hosts = append(out.Hosts, found)
	}
	return out, nil
}

func (h *standIn) WatchHost(ctx context.Context, _ pumps.WatchHostInput) error {
	h.watch(1)
	defer h.watch(-1)
	return h.stay(ctx)
}

func (h *standIn) watch(more int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watches += more
}

func (h *standIn) watched() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.watches
}

// unheard keeps what a pump read but could not report, because the journal still
// has it.
func (h *standIn) unheard(session string, out pumps.RunPumpResult) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.proc(session).journal = &out
}

func (h *standIn) attach(session string, in pumps.RunPumpInput) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.proc(session)
	epoch := [2]int64{in.Claim.Generation, in.Claim.Pump}
	if slices.Compare(epoch[:], p.epoch[:]) < 0 {
		h.t.Errorf("%s: a pump of epoch %v came after one of %v", session, epoch, p.epoch)
	}
	if p.pumping > 0 {
		return temporal.NewApplicationError("another one is attached", protocol.ErrTypeWireLost)
	}
	p.epoch = epoch
	p.pumping++
	p.sends = append(p.sends, in.Pump.Sends)
	return nil
}

func (h *standIn) detach(session, how string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.proc(session)
	p.pumping--
	p.results = append(p.results, how)
}

// stay heartbeats until the workflow cancels the pump. It returns an error if the worker
// stops.
func (h *standIn) stay(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-activity.GetWorkerStopChannel(ctx):
			return lostWorker()
		case <-ctx.Done():
			return nil
		case <-tick.C:
			activity.RecordHeartbeat(ctx)
		}
	}
}

// step takes the sends of a pump and does what the running turn's text says. A retry of the
// same pump gets the same sends.
func (h *standIn) step(session string, in pumps.RunPumpInput, again bool) (out pumps.RunPumpResult, wait bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.proc(session)
	st := in.Pump.State
	st.Opened, st.ThreadID, st.CodexVersion, st.Model = st.Cursor.Incarnation, "thread-"+session, "0.169.0", "model"
	st.Seq += int64(len(in.Pump.Notes))
	out.Pump.Reason = conversation.Bound
	p.limits = append(p.limits, in.Pump.Limits)
	if t := in.Pump.Tell; t != nil {
		h.told[session] = append(h.told[session], t.Text)
		out.Pump.Deliveries = append(out.Pump.Deliveries, protocol.Delivery{ID: t.ID, State: protocol.Acknowledged})
	}
	if p.text == "" && len(in.Pump.Sends) > 0 && strings.HasPrefix(in.Pump.Sends[0].Text, "late") && st.Cursor.Incarnation == 1 {
		p.dead = protocol.Decided
	}
	if p.dead != "" {
		for _, s := range in.Pump.Sends {
			out.Pump.Deliveries = append(out.Pump.Deliveries, protocol.Delivery{ID: s.ID, State: p.dead})
			p.had[s.ID] = p.had[s.ID] || p.dead != protocol.Decided
		}
		out.Pump.Reason, out.Pump.State = conversation.ProcessEnded, st
		out.Process = &pumps.ProcessGone{State: "exited", Code: 137}
		return out, false
	}
	before := p.journal
	p.journal = nil
	if before != nil && before.Pump.Reason == conversation.TurnEnded {
		for _, s := range in.Pump.Sends {
			state := protocol.Void // the turn had ended when this send came
			if p.had[s.ID] {
				state = protocol.Acknowledged
			}
			out.Pump.Deliveries = append(out.Pump.Deliveries, protocol.Delivery{ID: s.ID, State: state})
		}
		out.Pump.Reason, out.Pump.Turn, out.Pump.State = before.Pump.Reason, before.Pump.Turn, before.Pump.State
		return out, false
	}
	for _, s := range in.Pump.Sends {
		out.Pump.Deliveries = append(out.Pump.Deliveries, protocol.Delivery{ID: s.ID, State: protocol.Acknowledged})
		if p.had[s.ID] {
			if !s.Uncertain && !again {
				h.t.Errorf("%s: %s %s was sent twice", session, s.Kind, s.ID)
			}
			continue
		}
		p.had[s.ID] = true
		switch s.Kind {
		case conversation.SendTurn:
			if s.Text == toGoOn {
				s.Text = p.text // the text of the turn that its last process ran
			}
			p.text, p.turnID, p.stop, p.asked = s.Text, fmt.Sprintf("turn-%d", s.Turn), false, nil
			h.turns[session] = append(h.turns[session], ranTurn{s.Turn, s.ID})
			st.Turn = s.Turn
		case conversation.SendDecision:
			p.answers[string(s.RPC)] = s.Outcome
		case conversation.SendInterrupt:
			p.stop = true
		case conversation.SendSteer:
			p.steered = append(p.steered, s.ID)
		}
	}
	st.Cursor.Offset += 100
	st.TurnID = p.turnID
	end := func(status string) {
		out.Pump.Reason = conversation.TurnEnded
		out.Pump.Turn = &conversation.TurnEnd{N: st.Turn, ID: p.turnID, Status: status, FinalText: "you said: " + p.text, Items: 1}
		st.TurnID, p.turnID, p.text = "", "", ""
	}
	word, rest, _ := strings.Cut(p.text, " ")
	switch {
	case p.turnID == "":
	case p.stop:
		end("interrupted")
	case word == "stay", word == "late":
		wait = true
	case word == "spend":
		n, _ := strconv.ParseInt(rest, 10, 64)
		st.Usage.Input += n
		if end("completed"); in.Pump.Limits.Budget.Tokens > 0 && st.Usage.Input > in.Pump.Limits.Budget.Tokens {
			out.Pump.Turn.Status, out.Pump.Turn.Problem = "interrupted", &protocol.Problem{Kind: "budget", Message: "more than it was given"}
		}
	case word == "die":
		p.turnID, p.text = "", "hello" // do not die again when the turn is continued
		out.Pump.Reason = conversation.ProcessEnded
		out.Process = &pumps.ProcessGone{State: "exited", Code: 137}
	case word == "fail":
		end("failed")
	case word == "ask":
		out.Pump.Reason = conversation.RequestsOpen
		if p.asked == nil {
			for i, c := range strings.Fields(rest) {
				p.asked = append(p.asked, protocol.Request{
					RPC: json.RawMessage(fmt.Sprintf("%q", fmt.Sprint(p.turnID, ".", i))), Incarnation: st.Cursor.Incarnation,
					Kind: protocol.KindCommand, Command: c, Summary: c, Digest: "digest of " + c, TurnID: p.turnID,
					Offered: []string{"accept", "accept_for_session", "decline", "cancel"}})
			}
			out.Pump.Requests = p.asked
			break
		}
		if before != nil {
			out.Pump.Requests = before.Pump.Requests
		}
		open := false
		for _, a := range p.asked {
			open = open || p.answers[string(a.RPC)] == ""
		}
		if !open {
			end("completed")
		}
	case word == "lead":
		call := func(n int, tool string, args any) protocol.Request {
			text, err := json.Marshal(args)
			if err != nil {
				h.t.Error(err)
			}
			return protocol.Request{RPC: json.RawMessage(fmt.Sprintf("%q", fmt.Sprint(p.turnID, ".", n))), Incarnation: st.Cursor.Incarnation,
				Kind: protocol.KindChild, Tool: tool, Args: string(text), TurnID: p.turnID}
		}
		switch n := len(p.asked); {
		case n == 0:
			p.asked = append(p.asked, call(0, protocol.ToolStartSession, map[string]string{"prompt": rest}))
		case p.answers[string(p.asked[n-1].RPC)] == "":
		case n == 1:
			p.asked = append(p.asked, call(1, protocol.ToolWaitSession, map[string]any{}))
		default:
			end("completed")
		}
		if out.Pump.Turn == nil {
			out.Pump.Reason, out.Pump.Requests = conversation.RequestsOpen, p.asked[len(p.asked)-1:]
		}
	default:
		end("completed")
	}
	out.Pump.State = st
	return out, wait
}

// toGoOn is the text of a turn in which codex is told to go on.
const toGoOn = session.GoOnText
