package conversation

import (
	"encoding/json"
	"fmt"
	"slices"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// In a session that asks for verdicts, a call of deliver becomes a request once the file is
// in the store. That moment is not a line of the journal, so nothing is written into the
// transcript then: the session does that. If the pump ends before it could report the
// request, the next one carries out the call again, which changes nothing, and asks.

const verdictDescription = " Here a person judges each file before you get the result, which may take hours. " +
	"The result says that they accepted it, or what is to be changed: then change it and deliver it again under the same name."

// askVerdict makes a request of a call whose file is in the store. No policy judges it.
func (q *requests) askVerdict(c OpenCall, d protocol.Deliverable) {
	if len(q.st.Open) >= maxRequests {
		q.write(wire.Outgoing{ID: c.RPC, Result: toolAnswer(ToolReply{OK: true,
			Text: fmt.Sprintf("%s was taken, and nobody can judge it now, because %d other questions wait. Deliver it again when one was answered.", d.Name, maxRequests)})})
		return
	}
	a := &asked{Kind: protocol.KindDeliverable, Method: methodToolCall, Tool: protocol.ToolDeliver, thread: c.Thread, turn: c.TurnID, item: c.Call}
	a.Args = canonical(protocol.DeliveredFile{Bytes: d.Bytes, Description: d.Description, Name: d.Name, Path: d.Path, SHA256: d.Digest})
	r := describe(a, q.opt.Redactor)
	r.RPC, r.Incarnation, r.Call = slices.Clone(c.RPC), q.st.Cursor.Incarnation, c.ID
	q.demands.byID[wire.IDKey(r.RPC)] = a
	if q.err = q.handOver(r); q.err != nil {
		return
	}
	if !q.unreported() {
		q.unreportedAt = q.now
	}
	q.seen = append(q.seen, r)
	q.st.Open = append(q.st.Open, OpenRequest{RPC: r.RPC, Item: c.Call, Thread: c.Thread, TurnID: c.TurnID})
	key := wire.IDKey(c.RPC)
	q.st.dropCalls(func(o OpenCall) bool { return wire.IDKey(o.RPC) == key })
}

// verdictReply is the result of a call of deliver. Its file stays delivered in any case.
func (s Send) verdictReply() (any, error) {
	v := s.Verdict
	if v == nil {
		return nil, fmt.Errorf("the decision on a delivered file has no verdict")
	}
	file := fmt.Sprintf("%s (SHA-256 %s)", v.Name, v.SHA256)
	because := ""
	if s.Reason != "" {
		because = " They say: " + s.Reason
	}
	switch {
	case s.Outcome == protocol.Accept:
		return toolAnswer(ToolReply{OK: true, Text: "Accepted: " + file + "." + because}), nil
	case s.Outcome == protocol.Revise:
		return toolAnswer(ToolReply{OK: true, Text: "To be revised: " + file + ". Change what the comments ask for, and deliver it again under the same name." + because + "\n\nComments:\n" + v.Comments}), nil
	case v.Expired:
		return toolAnswer(ToolReply{Text: "No verdict: " + s.Reason + ". " + file + " is kept as you delivered it, and nobody has accepted it. " +
			"Do not deliver it again only to get a verdict: go on with what does not depend on it, or stop and say that it waits for one."}), nil
	case s.Outcome == protocol.Decline, s.Outcome == protocol.Cancel:
		return toolAnswer(ToolReply{Text: "Declined: " + file + "." + because + " It is not wanted in this form or another: do not deliver it again. Go on without it, or stop and say why it was declined."}), nil
	}
	return nil, s.unknown()
}

// deliveredText is the summary of a request for a verdict.
func deliveredText(r *protocol.Request) string {
	var f protocol.DeliveredFile
	if json.Unmarshal([]byte(r.Args), &f) != nil {
		return "judge a delivered file"
	}
	return fmt.Sprintf("judge %s: %d bytes, SHA-256 %s", quoteShort(f.Name), f.Bytes, quoteShort(f.SHA256))
}
