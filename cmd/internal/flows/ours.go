package flows

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/protocol"
)

// Ours refuses a decision that was kept for a worker, if another one was recorded meanwhile
// or codex has withdrawn the request.
func Ours(doing string, ap protocol.Approval, d protocol.Decide) error {
	was := ap.Decision
	switch {
	case was == nil && ap.State == protocol.ApprovalVoid:
		return errkind.Refused("%s: it is %s", doing, ap.State)
	case was == nil:
		return nil
	}
	same := was.Outcome == d.Outcome && was.Scope == cmp.Or(d.Scope, protocol.ScopeOnce)
	if !was.Signed { // otherwise By names the signer
		same = same && was.By == d.By && was.Reason == d.Reason
	}
	switch {
	case !same:
		return errkind.Refused("%s: already decided: %s by %s", doing, was.Outcome, was.By)
	case !sameGiven(ap, d):
		return errkind.Refused("%s: already decided: %s by %s, with other answers or another grant", doing, was.Outcome, was.By).
			Hinted("`ctl approval show %s` has that decision", ap.ID)
	}
	return nil
}

// sameGiven reports whether an approval was decided with the answers or the grant of d. What an
// old approval has no more is not the same.
func sameGiven(ap protocol.Approval, d protocol.Decide) bool {
	was := ap.Decision
	answers := AnswersOf(d.Answers)
	if d.Outcome == string(protocol.Answer) && len(ap.Questions) > 0 {
		ask := ap.Questions
		if d.AnswersBlob != "" {
			ask = slices.DeleteFunc(slices.Clone(ask), func(q protocol.Question) bool { _, open := answers[q.ID]; return !open })
		}
		if full, err := activities.CheckAnswers(ask, answers); err == nil { // with defaults
			answers = full
		}
	}
	return was.AnswersBlob == d.AnswersBlob && maps.EqualFunc(was.Answers, answers, slices.Equal) && sameJSON(was.Grant, d.Grant)
}

// AnswersOf reads answers, each a text or a list of texts, as a session does.
func AnswersOf(raw json.RawMessage) map[string][]string {
	var in map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if len(raw) == 0 || d.Decode(&in) != nil {
		return nil
	}
	out := map[string][]string{}
	for id, v := range in {
		list, many := v.([]any)
		if !many {
			list = []any{v}
		}
		texts := []string{}
		for _, one := range list {
			texts = append(texts, fmt.Sprint(one)) // texts, numbers and booleans
		}
		out[id] = texts
	}
	return out
}

func sameJSON(a, b json.RawMessage) bool { return reflect.DeepEqual(valueOf(a), valueOf(b)) }

func valueOf(raw json.RawMessage) any {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil
	}
	if m, is := v.(map[string]any); is && len(m) == 0 {
		return nil
	}
	return v
}
