package conversation

import (
	"encoding/json"
	"strings"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// decodeItem decodes an item, or only its id and type if other members are unexpected.
func decodeItem(p json.RawMessage) (wire.ItemNotice, bool) {
	var n wire.ItemNotice
	if json.Unmarshal(p, &n) == nil {
		return n, n.Item.ID != ""
	}
	var least struct {
		wire.Notice
		Item struct {
			ID   string `json:"id"`
			Type string `json:"type"`
		} `json:"item"`
	}
	if json.Unmarshal(p, &least) != nil {
		return n, false
	}
	return wire.ItemNotice{Notice: least.Notice, Item: wire.Item{ID: least.Item.ID, Type: least.Item.Type}}, least.Item.ID != ""
}

func (t *turns) itemStarted(p json.RawMessage) {
	n, ok := decodeItem(p)
	if !ok {
		return
	}
	t.time.dated(n.StartedAtMS)
	if n.Item.Type == "userMessage" && n.Item.ClientID != "" && t.st.ours(n.Notice) {
		t.delivery.echoed(n.TurnID, n.Item.ClientID)
	}
	if n.Item.Type != "userMessage" && t.st.ours(n.Notice) {
		t.sayForeign()
	}
	key := t.st.keyOf(n.ThreadID, n.Item.ID)
	_, known := t.items.drop(key)
	if len(t.st.Items) >= maxOpenItems {
		t.items.drop(t.st.oldestIdle())
	}
	t.st.TurnEffects = t.st.TurnEffects || !harmless[n.Item.Type]
	if t.st.ours(n.Notice) {
		t.quiet.modelSpoke()
	}
	it := OpenItem{ID: n.Item.ID, Type: n.Item.Type, Turn: t.st.Turn, Offset: t.line.Offset, Thread: key.thread}
	if n.Item.Type == "mcpToolCall" {
		it.Call = callOf(n.Item.Server, n.Item.Tool, n.Item.Args)
	}
	if n.Item.Type == "commandExecution" && n.Item.CWD != t.in.Thread.CWD {
		if it.CWD = wire.Excerpt(t.redact(n.Item.CWD), maxCWD); wire.Len(n.Item.CWD) > maxCWD {
			it.CWD += "…"
		}
	}
	t.st.Items = append(t.st.Items, it)
	if n.Item.Type == "fileChange" {
		t.items.changed(key, n.Item.Changes)
	}
	if n.Item.Type == "commandExecution" && !known {
		if n.Item.Command != "" {
			t.sink.Delta(protocol.Delta{Item: it.ID, Type: protocol.EntryCommand, Turn: it.Turn, Command: t.cut(n.Item.Command, maxLiveCommand), Agent: t.st.agentOf(it.Thread)})
		}
		t.spending.commandBegun()
	}
}

// maxLiveCommand bounds the command that viewers see before its end.
const maxLiveCommand = 2000

// harmless types change nothing outside the conversation.
var harmless = map[string]bool{
	"userMessage": true, "agentMessage": true, "reasoning": true, "plan": true, "contextCompaction": true, "webSearch": true, "imageView": true,
	"enteredReviewMode": true, "exitedReviewMode": true,
}

func (t *turns) itemCompleted(p json.RawMessage) {
	n, ok := decodeItem(p)
	if !ok {
		return
	}
	t.time.dated(n.CompletedAtMS)
	turn := t.st.Turn
	key := t.st.keyOf(n.ThreadID, n.Item.ID)
	if it, ok := t.items.drop(key); ok {
		turn = it.Turn // it may have outlived its turn
		t.noticed.toolEnds(&it)
	}
	if n.Item.Type == "dynamicToolCall" {
		t.calls.done(key)
	}
	if said, ok := t.abortMarked(n); ok {
		t.abortRead(n, said)
		return
	}
	own := t.st.ours(n.Notice)
	e := itemEntry(n.Item)
	e.Turn, e.Item = turn, n.Item.ID
	switch n.Item.Type {
	case "collabAgentToolCall":
		t.agentTool(&e, p)
	case "subAgentActivity":
		t.agentActivity(&e, p, n.ThreadID)
	case "hookPrompt":
		e.Text = hookPrompt(p)
	}
	t.ofThread(&e, n.ThreadID)
	if own && t.st.TurnID != "" && n.TurnID == t.st.TurnID {
		t.st.TurnItems++
		if !harmless[n.Item.Type] {
			t.st.TurnTools++
		}
		t.quiet.itemEnded(n.Item.Type)
		if n.Item.Type == "agentMessage" {
			t.addFinal(n.Item.Text)
		}
	}
	if own && n.Item.Type == "userMessage" && n.Item.ClientID != "" {
		t.delivery.echoed(n.TurnID, n.Item.ClientID)
		e.Turn = t.st.Turn
		setData(&e, "message", n.Item.ClientID)
	}
	if e.Type == protocol.EntryReasoning && e.Text == "" {
		return // hidden reasoning
	}
	t.entry(e)
}

func setData(e *protocol.Entry, k, v string) {
	if v == "" {
		return
	}
	if e.Data == nil {
		e.Data = map[string]string{}
	}
	e.Data[k] = v
}

func (t *turns) addFinal(text string) {
	if text == "" || t.st.FinalTruncated {
		return
	}
	if t.st.FinalText != "" {
		t.st.FinalText += "\n\n"
	}
	t.st.FinalAt = len(t.st.FinalText)
	whole := t.st.FinalText + t.redact(text)
	t.st.FinalText = wire.Excerpt(whole, maxFinal)
	t.st.FinalTruncated = len(t.st.FinalText) < len(whole)
}

func itemEntry(it wire.Item) protocol.Entry {
	e := protocol.Entry{Status: it.Status}
	switch it.Type {
	case "userMessage":
		e.Type, e.Text = protocol.EntryUser, userText(it.Content)
	case "agentMessage":
		e.Type, e.Text = protocol.EntryAssistant, it.Text
	case "plan":
		e.Type, e.Text = protocol.EntryAssistant, it.Text
		setData(&e, "plan", "true")
	case "reasoning":
		e.Type, e.Text = protocol.EntryReasoning, reasoningText(it)
	case "commandExecution":
		e.Type, e.Command, e.CWD, e.ExitCode, e.Text = protocol.EntryCommand, it.Command, it.CWD, it.ExitCode, it.Output
	case "fileChange":
		e.Type, e.Changes = protocol.EntryFileChange, changes(it.Changes)
		e.Text = changeSummary(e.Changes, nil)
	case "mcpToolCall":
		e.Type, e.Tool = protocol.EntryTool, it.Server+"/"+it.Tool
		e.Text = toolText(it.Result, it.Error)
		setData(&e, "arguments", compact(it.Args))
	case "dynamicToolCall":
		e.Type, e.Tool = protocol.EntryTool, it.Tool
		if it.Space != "" {
			e.Tool = it.Space + "/" + it.Tool
		}
		e.Text = toolText(it.Items, nil)
		setData(&e, "arguments", compact(it.Args))
	case "webSearch":
		e.Type, e.Tool, e.Text = protocol.EntryTool, it.Type, it.Query
	case "imageView":
		e.Type, e.Tool, e.Text = protocol.EntryTool, it.Type, it.Path
	case "contextCompaction":
		e.Type, e.Text = protocol.EntryState, "the context was compacted"
	case "enteredReviewMode", "exitedReviewMode":
		e.Type, e.Text = protocol.EntryState, it.Type+": "+it.Review
	case "collabAgentToolCall":
		e.Type, e.Tool = protocol.EntryTool, it.Tool
	case "hookPrompt":
		e.Type, e.Status = protocol.EntryHook, "prompt"
	default:
		e.Type, e.Text = protocol.EntryItem, it.Text
		setData(&e, "type", it.Type)
	}
	return e
}

// hookPrompt returns what hooks told the model.
func hookPrompt(p json.RawMessage) string {
	var in struct {
		Item struct {
			Fragments []struct {
				Text string `json:"text"`
			} `json:"fragments"`
		} `json:"item"`
	}
	if json.Unmarshal(p, &in) != nil {
		return ""
	}
	var texts []string
	for _, f := range in.Item.Fragments {
		texts = append(texts, f.Text)
	}
	return strings.Join(texts, "\n\n")
}

func userText(content json.RawMessage) string {
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
		Path string `json:"path"`
	}
	if json.Unmarshal(content, &parts) != nil {
		return ""
	}
	var texts []string
	for _, p := range parts {
		switch {
		case p.Type == "text":
			texts = append(texts, p.Text)
		case p.Path != "":
			texts = append(texts, "["+p.Type+" "+p.Path+"]")
		default:
			texts = append(texts, "["+p.Type+"]")
		}
	}
	return strings.Join(texts, "\n")
}

func reasoningText(it wire.Item) string {
	if len(it.Summary) > 0 {
		return strings.Join(it.Summary, "\n\n")
	}
	var content []string
	if json.Unmarshal(it.Content, &content) != nil {
		return ""
	}
	return strings.Join(content, "\n\n")
}

// toolText returns the texts of a tool's answer, or its JSON if it has none.
func toolText(result, failure json.RawMessage) string {
	var f struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(failure, &f) == nil && f.Message != "" {
		return f.Message
	}
	type part struct {
		Text string `json:"text"`
	}
	var list []part
	if json.Unmarshal(result, &list) != nil {
		var object struct {
			Content []part `json:"content"`
		}
		if json.Unmarshal(result, &object) == nil {
			list = object.Content
		}
	}
	var texts []string
	for _, p := range list {
		if p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	if len(texts) > 0 {
		return strings.Join(texts, "\n")
	}
	return compact(result)
}

func compact(raw json.RawMessage) string {
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	return string(raw)
}

func (t *turns) delta(d wire.Piece) {
	it := t.st.itemOf(d)
	if it == nil {
		return
	}
	if d.Of != protocol.EntryCommand && it.Thread == "" {
		t.quiet.modelSpoke()
	}
	t.items.keep(it, t.line.Offset, d.Text)
	at, text := t.items.show(it, d.Text)
	if text != "" {
		t.sink.Delta(protocol.Delta{Item: it.ID, Type: d.Of, Turn: it.Turn, At: at, Text: text, Agent: t.st.agentOf(it.Thread)})
	}
}
