package scriptedmodel

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
	"unicode"
)

// errCut means that the connection is to be closed in mid-answer.
var errCut = errors.New("the connection is cut on purpose")

// stream writes one response as server-sent events, in the order and shapes of
// the Responses API.
type stream struct {
	w     http.ResponseWriter
	flush func() error
	id    string // of the response, and part of all other ids
	model string
	// served, if set, is the model that answers in place of model.
	served string
	limits *Limits
	pace   time.Duration

	seq    int
	output int // items so far
	sent   int // characters, for the estimate of tokens
	deltas int
	after  []interruption
}

// interruption is something to do after that many deltas.
type interruption struct {
	deltas int
	do     func() error
}

func (s *stream) event(kind string, fields map[string]any) error {
	fields["type"] = kind
	fields["sequence_number"] = s.seq
	s.seq++
	if _, err := fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", kind, mustJSON(fields)); err != nil {
		return err
	}
	return s.flush()
}

// response returns the `response` member of events.
func (s *stream) response(status string) map[string]any {
	return map[string]any{"id": "resp_" + s.id, "object": "response", "model": s.model, "status": status}
}

func (s *stream) begin() error {
	s.w.Header().Set("Content-Type", "text/event-stream")
	s.w.Header().Set("Cache-Control", "no-store")
	if s.served != "" {
		s.w.Header().Set("OpenAI-Model", s.served)
	}
	if l := s.limits; l != nil {
		s.w.Header().Set("X-Codex-Primary-Used-Percent", strconv.Itoa(l.Used))
		s.w.Header().Set("X-Codex-Primary-Window-Minutes", strconv.Itoa(l.Minutes))
		s.w.Header().Set("X-Codex-Primary-Reset-At", strconv.FormatInt(time.Now().Add(l.ResetsIn).Unix(), 10))
	}
	s.w.WriteHeader(http.StatusOK)
	return s.event("response.created", map[string]any{"response": s.response("in_progress")})
}

// delta sends one piece of text and then runs the interruptions that are due.
func (s *stream) delta(ctx context.Context, kind string, pace time.Duration, fields map[string]any) error {
	if err := s.event(kind, fields); err != nil {
		return err
	}
	s.deltas++
	for len(s.after) > 0 && s.after[0].deltas <= s.deltas {
		do := s.after[0].do
		s.after = s.after[1:]
		if err := do(); err != nil {
			return err
		}
	}
	return pause(ctx, pace)
}

func (s *stream) say(ctx context.Context, t *Text) error {
	at, id := s.output, fmt.Sprintf("msg_%s_%d", s.id, s.output)
	item := func(status, text string) map[string]any {
		return map[string]any{"type": "message", "id": id, "role": "assistant", "status": status,
			"content": []any{map[string]any{"type": "output_text", "text": text, "annotations": []any{}}}}
	}
	began := item("in_progress", "")
	began["content"] = []any{}
	if err := s.event("response.output_item.added", map[string]any{"output_index": at, "item": began}); err != nil {
		return err
	}
	for _, word := range words(t.Text) {
		err := s.delta(ctx, "response.output_text.delta", s.paceOf(t),
			map[string]any{"item_id": id, "output_index": at, "content_index": 0, "delta": word})
		if err != nil {
			return err
		}
	}
	err := s.event("response.output_text.done",
		map[string]any{"item_id": id, "output_index": at, "content_index": 0, "text": t.Text})
	if err != nil {
		return err
	}
	return s.done(item("completed", t.Text), len(t.Text))
}

func (s *stream) think(ctx context.Context, t *Text) error {
	at, id := s.output, fmt.Sprintf("rs_%s_%d", s.id, s.output)
	began := map[string]any{"type": "reasoning", "id": id, "summary": []any{}}
	if err := s.event("response.output_item.added", map[string]any{"output_index": at, "item": began}); err != nil {
		return err
	}
	place := func(more map[string]any) map[string]any {
		more["item_id"], more["output_index"], more["summary_index"] = id, at, 0
		return more
	}
	part := map[string]any{"type": "summary_text", "text": ""}
	if err := s.event("response.reasoning_summary_part.added", place(map[string]any{"part": part})); err != nil {
		return err
	}
	for _, word := range words(t.Text) {
		err := s.delta(ctx, "response.reasoning_summary_text.delta", s.paceOf(t), place(map[string]any{"delta": word}))
		if err != nil {
			return err
		}
	}
	if err := s.event("response.reasoning_summary_text.done", place(map[string]any{"text": t.Text})); err != nil {
		return err
	}
	return s.done(map[string]any{"type": "reasoning", "id": id, "encrypted_content": "scripted",
		"summary": []any{map[string]any{"type": "summary_text", "text": t.Text}}}, len(t.Text))
}

// call sends a tool call made by dialect. Its input is sent in one delta, which
// does not count as a delta of text.
func (s *stream) call(it map[string]any) error {
	prefix, field, delta := "fc", "arguments", "response.function_call_arguments"
	if it["type"] == "custom_tool_call" {
		prefix, field, delta = "ctc", "input", "response.custom_tool_call_input"
	}
	at, id, input := s.output, fmt.Sprintf("%s_%s_%d", prefix, s.id, s.output), it[field].(string)
	began := map[string]any{}
	for k, v := range it {
		began[k] = v
	}
	began["id"], began["status"], began[field] = id, "in_progress", ""
	it["id"], it["status"] = id, "completed"

	if err := s.event("response.output_item.added", map[string]any{"output_index": at, "item": began}); err != nil {
		return err
	}
	place := map[string]any{"item_id": id, "output_index": at, "call_id": it["call_id"], "delta": input}
	if err := s.event(delta+".delta", place); err != nil {
		return err
	}
	delete(place, "delta")
	place[field] = input
	if err := s.event(delta+".done", place); err != nil {
		return err
	}
	return s.done(it, len(input))
}

func (s *stream) callAll(items []map[string]any) error {
	for _, it := range items {
		if err := s.call(it); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) done(item map[string]any, size int) error {
	err := s.event("response.output_item.done", map[string]any{"output_index": s.output, "item": item})
	s.output++
	s.sent += size
	return err
}

func (s *stream) complete(u Usage) error {
	r := s.response("completed")
	r["usage"] = map[string]any{
		"input_tokens":          u.Input,
		"input_tokens_details":  map[string]any{"cached_tokens": u.Cached},
		"output_tokens":         u.Output,
		"output_tokens_details": map[string]any{"reasoning_tokens": u.Reasoning},
		"total_tokens":          u.Input + u.Output,
	}
	return s.event("response.completed", map[string]any{"response": r})
}

func (s *stream) paceOf(t *Text) time.Duration {
	if t.Pace != 0 {
		return t.Pace
	}
	return s.pace
}

// words splits a text after the space that follows each word. The pieces joined
// are the text.
func words(text string) []string {
	var out []string
	start, space := 0, false
	for i, r := range text {
		if space && !unicode.IsSpace(r) {
			out = append(out, text[start:i])
			start = i
		}
		space = unicode.IsSpace(r)
	}
	if start < len(text) {
		out = append(out, text[start:])
	}
	return out
}

// pause waits, or ends with the context's error.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
