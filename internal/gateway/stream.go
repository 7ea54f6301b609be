package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A stream follows one answer of a provider. It does no I/O: feed and over say what is to
// be sent to codex and whether the answer has ended.
type stream struct {
	most   int    // bytes of output that are remembered
	hold   []Kind // failures before the answer begins that codex is not told: another upstream is asked
	held   [][]byte
	heldN  int
	begun  bool
	ended  bool
	done   bool // [DONE] was seen
	size   int
	chars  int // of output, for the estimate
	items  map[int]*item
	first  json.RawMessage // the response of response.created
	events int
}

// An item is one part of the output, told by its index.
type item struct {
	added json.RawMessage
	done  json.RawMessage
	kind  string
	text  strings.Builder
	whole bool // the end of its text was announced
}

// A step is what follows from an event.
type step struct {
	send []byte
	end  *ending // nil: the stream goes on
}

// An ending says how an answer ended.
type ending struct {
	kind    Kind
	message string // the provider's words
	passing bool   // the same request may succeed later
	rebuilt string // what of the answer the gateway made, if anything
	usage   *Usage
}

const maxHeld = 1 << 20 // bytes before response.created

func newStream(most int, hold []Kind) *stream {
	return &stream{most: most, hold: hold, items: map[int]*item{}}
}

// body is what the gateway reads of an event.
type body struct {
	Type        string          `json:"type"`
	OutputIndex int             `json:"output_index"`
	Item        json.RawMessage `json:"item"`
	Delta       string          `json:"delta"`
	Text        string          `json:"text"`
	Response    json.RawMessage `json:"response"`
	Error       *providerError  `json:"error"`
	Code        any             `json:"code"`
	Message     string          `json:"message"`
}

type providerError struct {
	Code    any    `json:"code"`
	Type    string `json:"type"`
	Message string `json:"message"`
}

type response struct {
	Output            []json.RawMessage `json:"output"`
	Usage             *wireUsage        `json:"usage"`
	Error             *providerError    `json:"error"`
	IncompleteDetails *struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
}

type wireUsage struct {
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
	In     struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"input_tokens_details"`
}

// mostTold bounds the tokens that a provider is believed to have used for a request.
const mostTold = 100_000_000

// usage returns nil if the provider did not say it, or nothing that can be true.
func (u *wireUsage) usage() *Usage {
	if u == nil {
		return nil
	}
	for _, n := range []int64{u.Input, u.Output, u.In.Cached} {
		if n < 0 || n > mostTold {
			return nil
		}
	}
	return &Usage{Input: u.Input, Output: u.Output, Cached: u.In.Cached}
}

func garbage(why string) step {
	return step{end: &ending{kind: KindGarbage, message: why, passing: true}}
}

// feed follows one event. After an end it must not be called again.
func (s *stream) feed(f frame) step {
	if f.done() {
		s.done = true
		return step{}
	}
	if s.size += len(f.data); s.size > s.most {
		return garbage(fmt.Sprintf("the answer has more than %d bytes", s.most))
	}
	b := f.read
	if b == nil {
		b = &body{}
		if err := json.Unmarshal(f.data, b); err != nil {
			return garbage("an event of type " + excerpt(f.kind) + " has members of other types than the Responses API has")
		}
	}
	s.events++
	switch f.kind {
	case "error":
		e := b.Error
		if e == nil {
			e = &providerError{Code: b.Code, Message: b.Message}
		}
		return s.failed(f, e, nil)
	case "response.failed":
		r, _ := parseResponse(b.Response)
		return s.failed(f, r.Error, r.Usage.usage())
	case "response.incomplete":
		r, _ := parseResponse(b.Response)
		why := ""
		if r.IncompleteDetails != nil {
			why = r.IncompleteDetails.Reason
		}
		return s.last(f.text(), &ending{kind: KindIncomplete, message: why, usage: r.Usage.usage()})
	case "response.completed":
		return s.completed(f, b)
	case "response.created":
		s.first = b.Response
	}
	s.remember(f.kind, b)
	if !s.begun && f.kind != "response.created" && !strings.HasPrefix(f.kind, "response.output_") {
		if s.heldN += len(f.data); s.heldN > maxHeld {
			return garbage("the answer does not begin")
		}
		s.held = append(s.held, f.text())
		return step{}
	}
	return step{send: s.out(f.text())}
}

// out returns what is to be sent: also what was held back until the answer began.
func (s *stream) out(b []byte) []byte {
	s.begun = true
	if len(s.held) == 0 {
		return b
	}
	b = slices.Concat(append(s.held, b)...)
	s.held = nil
	return b
}

func (s *stream) last(b []byte, e *ending) step {
	s.ended = true
	return step{send: s.out(b), end: e}
}

func (s *stream) remember(kind string, b *body) {
	if len(s.items) >= 10_000 {
		return
	}
	at := func() *item {
		it := s.items[b.OutputIndex]
		if it == nil {
			it = &item{}
			s.items[b.OutputIndex] = it
		}
		return it
	}
	switch kind {
	case "response.output_item.added":
		it := at()
		it.added, it.kind = b.Item, kindOf(b.Item)
	case "response.output_item.done":
		it := at()
		if it.done == nil {
			it.done, it.kind = b.Item, kindOf(b.Item)
		}
	case "response.output_text.delta":
		at().text.WriteString(b.Delta)
		s.chars += len(b.Delta)
	case "response.output_text.done":
		it := at()
		if b.Text != "" {
			it.text.Reset()
			it.text.WriteString(b.Text)
		}
		it.whole = true
	default:
		s.chars += len(b.Delta)
	}
}

func kindOf(raw json.RawMessage) string {
	var it struct {
		Type string `json:"type"`
	}
	_ = json.Unmarshal(raw, &it) // then it is of no known type
	return it.Type
}

func parseResponse(raw json.RawMessage) (response, bool) {
	var r response
	if len(raw) == 0 || json.Unmarshal(raw, &r) != nil {
		return response{}, false
	}
	return r, true
}

func (s *stream) failed(f frame, e *providerError, u *Usage) step {
	if e == nil {
		e = &providerError{Message: "the provider gives no reason"}
	}
	end := endingOf(e)
	end.usage = u
	if !s.begun && (end.passing || end.kind == KindAuth || slices.Contains(s.hold, end.kind)) {
		s.ended = true
		return step{end: end} // a broken prelude, or a key that codex does not have: nothing is sent
	}
	return s.last(f.text(), end)
}

func (s *stream) completed(f frame, b *body) step {
	r, ok := parseResponse(b.Response)
	if !ok {
		return garbage("response.completed has no response")
	}
	end := &ending{kind: KindCompleted, usage: r.Usage.usage()}
	if len(r.Output) > 0 || len(s.items) == 0 {
		return s.last(f.text(), end)
	}
	output, extra, made := s.output()
	if output == nil {
		return s.last(f.text(), end)
	}
	text, err := withMember(f.data, output)
	if err != nil {
		return s.last(f.text(), end)
	}
	end.rebuilt = made
	return s.last(append(extra, frame{kind: f.kind, data: text}.text()...), end)
}

// output returns the streamed items, the events of those that the provider did not finish,
// and what they were made of. It returns nil if an item cannot be made.
func (s *stream) output() (output []json.RawMessage, extra []byte, made string) {
	made = "output from finished items"
	var places []int
	for i := range s.items {
		places = append(places, i)
	}
	slices.Sort(places)
	for _, i := range places {
		it := s.items[i]
		if it.done != nil {
			output = append(output, it.done)
			continue
		}
		if it.kind != "message" && it.kind != "" || it.text.Len() == 0 || !it.whole && !s.done {
			return nil, nil, ""
		}
		var head struct {
			ID string `json:"id"`
		}
		_ = json.Unmarshal(it.added, &head) // then it has no id
		if head.ID == "" {
			head.ID = fmt.Sprintf("msg_rebuilt_%d", i)
		}
		raw := mustJSON(map[string]any{"type": "message", "id": head.ID, "role": "assistant", "status": "completed",
			"content": []any{map[string]any{"type": "output_text", "text": it.text.String(), "annotations": []any{}}}})
		data := mustJSON(map[string]any{"type": "response.output_item.done", "output_index": i, "item": json.RawMessage(raw)})
		extra = append(extra, frame{kind: "response.output_item.done", data: data}.text()...)
		output, made = append(output, raw), "output from text"
	}
	return output, extra, made
}

// withMember returns a final event with another output.
func withMember(event []byte, output []json.RawMessage) ([]byte, error) {
	var whole, inner map[string]json.RawMessage
	if err := json.Unmarshal(event, &whole); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(whole["response"], &inner); err != nil {
		return nil, err
	}
	if inner == nil {
		return nil, errGarbage
	}
	inner["output"] = mustJSON(output)
	whole["response"] = mustJSON(inner)
	return mustJSON(whole), nil
}

// over follows the end of the bytes. clean means that the provider ended them in good
// order.
func (s *stream) over(clean bool) step {
	cut := &ending{kind: KindCut, message: "the stream ended before the answer was complete", passing: true}
	if !s.begun || !clean && !s.done || len(s.items) == 0 {
		return step{end: cut}
	}
	output, extra, made := s.output()
	if output == nil {
		return step{end: cut}
	}
	var inner map[string]json.RawMessage
	if json.Unmarshal(s.first, &inner) != nil || inner == nil {
		inner = map[string]json.RawMessage{"id": json.RawMessage(`"resp_rebuilt"`), "object": json.RawMessage(`"response"`)}
	}
	inner["status"], inner["output"] = json.RawMessage(`"completed"`), mustJSON(output)
	data := mustJSON(map[string]any{"type": "response.completed", "response": inner})
	return s.last(append(extra, frame{kind: "response.completed", data: data}.text()...),
		&ending{kind: KindCompleted, rebuilt: "final event, " + made})
}

// events of a whole response, for a provider that does not stream.
func eventsOf(raw []byte) ([]frame, error) {
	r, ok := parseResponse(raw)
	var inner map[string]json.RawMessage
	if !ok || json.Unmarshal(raw, &inner) != nil {
		return nil, fmt.Errorf("%w: it is no response", errGarbage)
	}
	event := func(kind string, more map[string]any) frame {
		more["type"] = kind
		return frame{kind: kind, data: mustJSON(more)}
	}
	begin := map[string]json.RawMessage{}
	for k, v := range inner {
		begin[k] = v
	}
	begin["status"], begin["output"] = json.RawMessage(`"in_progress"`), json.RawMessage(`[]`)
	delete(begin, "usage")
	out := []frame{event("response.created", map[string]any{"response": begin})}
	for i, it := range r.Output {
		out = append(out, event("response.output_item.added", map[string]any{"output_index": i, "item": it}))
		var m struct {
			ID      string `json:"id"`
			Content []struct {
				Type string `json:"type"`
				Text string `json:"text"`
			} `json:"content"`
		}
		if kindOf(it) == "message" && json.Unmarshal(it, &m) == nil {
			for n, c := range m.Content {
				if c.Type == "output_text" {
					out = append(out, event("response.output_text.delta", map[string]any{"item_id": m.ID, "output_index": i, "content_index": n, "delta": c.Text}))
				}
			}
		}
		out = append(out, event("response.output_item.done", map[string]any{"output_index": i, "item": it}))
	}
	kind := "response.completed"
	switch string(bytes.Trim(inner["status"], `"`)) {
	case "failed":
		kind = "response.failed"
	case "incomplete":
		kind = "response.incomplete"
	}
	return append(out, event(kind, map[string]any{"response": inner})), nil
}

func mustJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // it is made of what was parsed
	}
	return b
}
