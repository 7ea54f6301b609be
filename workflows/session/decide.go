package session

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// MaxGiven bounds the JSON of a decision's answers or grant, in bytes. The state carries
// dozens of decisions.
const MaxGiven = 32 << 10

// answersBlob matches the keys under which the worker's API stores secret answers: the
// session's name and the beginning of the request's digest.
var answersBlob = regexp.MustCompile(`^` + site.AnswersPrefix + `([a-z0-9][a-z0-9._-]{0,62})/([0-9a-f]{16})-[0-9a-f]{32}$`)

func (s *approvalsPart) checkDecide(d protocol.Decide) (*approvalState, protocol.Decision, error) {
	a, err := s.decidable(d)
	if err != nil {
		return nil, protocol.Decision{}, err
	}
	c := checkedDecide{s, a, d}
	dec := protocol.Decision{Outcome: d.Outcome, By: d.By, At: workflow.Now(s.ctx), Reason: d.Reason, Scope: cmp.Or(d.Scope, protocol.ScopeOnce)}
	for _, check := range []func(*protocol.Decision) error{c.sizes, c.outcome, c.scope, c.offered, c.answers, c.grant, c.lasting, c.stepUp, c.signed} {
		if err := check(&dec); err != nil {
			return nil, protocol.Decision{}, err
		}
	}
	return a, dec, nil
}

// decidable returns the open approval that a decision names, if the digests match.
func (s *approvalsPart) decidable(d protocol.Decide) (*approvalState, error) {
	name, ok := strings.CutPrefix(d.Approval, s.id+".")
	n, err := strconv.Atoi(name)
	if !ok || err != nil || n < 1 {
		return nil, kit.Refuse(protocol.RefusedState, "decide %.100q: it is no approval of session %s (its approvals are %s.1, %s.2, …)", d.Approval, s.id, s.id, s.id)
	}
	a := s.st.approval(n)
	switch {
	case a == nil && n > s.st.ApprovalN:
		return nil, kit.Refuse(protocol.RefusedNotFound, "decide %s: no such approval: session %s has had only %d approvals so far", d.Approval, s.id, s.st.ApprovalN)
	case a == nil:
		return nil, kit.Refuse(protocol.RefusedState, "decide %s: decided long ago (see the transcript)", d.Approval)
	case d.Digest == "":
		return nil, kit.Refuse(protocol.RefusedBadInput, "decide %s: the digest of what was asked is missing (`ctl approval show %s` has it)", d.Approval, d.Approval)
	case d.Digest != a.Request.Digest:
		return nil, kit.Refuse(protocol.RefusedState, "decide %s: the given digest does not match the request (its digest begins with %s): run `ctl approval show` again and decide with its digest", d.Approval, a.Request.Digest[:min(12, len(a.Request.Digest))])
	case a.State == protocol.ApprovalVoid:
		return nil, kit.Refuse(protocol.RefusedState, "decide %s: codex does not ask for this any more (%s)", d.Approval, a.Why)
	case a.State == protocol.ApprovalExpired:
		return nil, kit.Refuse(protocol.RefusedState, "decide %s: it expired at %s and was declined", d.Approval, a.Expires.UTC().Format(time.RFC3339))
	case a.State == protocol.ApprovalOpen && !workflow.Now(s.ctx).Before(a.Expires): // the expiry timer is late
		return nil, kit.Refuse(protocol.RefusedState, "decide %s: it expired at %s", d.Approval, a.Expires.UTC().Format(time.RFC3339))
	case a.State == protocol.ApprovalOpen && s.ends() != nil:
		return nil, s.ends()
	case a.State != protocol.ApprovalOpen:
		return nil, kit.Refuse(protocol.RefusedState, "decide %s: already decided: %s by %s", d.Approval, a.Decision.Outcome, a.Decision.By)
	}
	return a, nil
}

type checkedDecide struct {
	s *approvalsPart
	a *approvalState
	d protocol.Decide
}

func (c checkedDecide) bad(format string, args ...any) error {
	return kit.Refuse(protocol.RefusedBadInput, "decide %s: %s", c.d.Approval, fmt.Sprintf(format, args...))
}

func (c checkedDecide) no(format string, args ...any) error {
	return kit.Refuse(protocol.RefusedState, "decide %s: %s", c.d.Approval, fmt.Sprintf(format, args...))
}

func (c checkedDecide) sizes(*protocol.Decision) error {
	d := c.d
	if err := kit.Short([]kit.Text{{What: "reason", Is: d.Reason, Max: kit.MaxReason}, {What: "by", Is: d.By, Max: kit.MaxWord}}); err != nil {
		return c.bad("%v", err)
	}
	if n := max(len(d.Answers), len(d.Grant)); n > MaxGiven {
		return c.bad("its answers or grant take %d bytes, at most %d", n, MaxGiven)
	}
	return nil
}

var outcomes = []struct {
	word protocol.Outcome
	fits func(protocol.Request) bool
}{
	{protocol.Accept, func(r protocol.Request) bool { return r.Kind != protocol.KindUserInput }},
	{protocol.Decline, func(protocol.Request) bool { return true }},
	{protocol.Cancel, func(protocol.Request) bool { return true }},
	{protocol.Answer, func(r protocol.Request) bool { return len(r.Questions) > 0 }},
	{protocol.Revise, func(r protocol.Request) bool { return r.Kind == protocol.KindDeliverable }},
	{protocol.Grant, func(r protocol.Request) bool { return r.Kind == protocol.KindPermissions }},
	{protocol.Amend, func(r protocol.Request) bool {
		return r.Kind == protocol.KindCommand || len(r.Amendment) > 0
	}},
}

// outcome refuses an outcome that is unknown or does not fit the request, and answers or a
// grant that do not fit the outcome.
func (c checkedDecide) outcome(*protocol.Decision) error {
	d, r := c.d, c.a.Request
	var words []string
	known, fits := false, false
	for _, o := range outcomes {
		words = append(words, string(o.word))
		if string(o.word) == d.Outcome {
			known, fits = true, o.fits(r)
		}
	}
	switch {
	case !known:
		return c.bad("unknown outcome %.100q: use one of %s", d.Outcome, strings.Join(words, ", "))
	case !fits:
		return c.bad("a %s is not answered with %q (%s are offered)", r.Kind, d.Outcome, strings.Join(r.Offered, ", "))
	case d.Outcome == string(protocol.Revise) && d.AnswersBlob != "":
		return c.bad("comments are no secret answers")
	case d.Outcome != string(protocol.Answer) && d.Outcome != string(protocol.Revise) && (given(d.Answers) || d.AnswersBlob != ""):
		return c.bad("a decision to %s takes no answers", d.Outcome)
	case d.Outcome != string(protocol.Grant) && given(d.Grant):
		return c.bad("a decision to %s takes no grant", d.Outcome)
	}
	return nil
}

func given(raw json.RawMessage) bool {
	switch string(raw) {
	case "", "null", "{}":
		return false
	}
	return true
}

func (c checkedDecide) scope(*protocol.Decision) error {
	switch d := c.d; d.Scope {
	case "", protocol.ScopeOnce:
	case protocol.ScopeSession:
		if d.Outcome != string(protocol.Accept) && d.Outcome != string(protocol.Grant) {
			return c.bad("only an accept or a grant can hold for the session")
		}
		grants := c.s.st.Grants
		if _, known := grants[c.a.Request.Digest]; !known && len(grants) >= maxGrants && d.Outcome == string(protocol.Accept) {
			return c.no("session %s already remembers %d accepted requests, which is the limit: accept this one with scope once", c.s.id, maxGrants)
		}
	default:
		return c.bad("unknown scope %.100q: use once or session", d.Scope)
	}
	return nil
}

// offered refuses what codex did not offer. Declining is always possible.
func (c checkedDecide) offered(*protocol.Decision) error {
	if word, found := c.d.NotOffered(c.a.Request.Offered); found {
		return c.no("%s is not offered (%s are)", word, strings.Join(c.a.Request.Offered, ", "))
	}
	return nil
}

// answers checks the answers to the questions. It trusts secret answers by the name of
// their blob: only the worker's API makes such blobs, and only for answers that fit.
func (c checkedDecide) answers(to *protocol.Decision) error {
	d, r := c.d, c.a.Request
	if d.Outcome != string(protocol.Answer) && d.Outcome != string(protocol.Revise) {
		return nil
	}
	answers, err := readAnswers(d.Answers)
	if err != nil {
		return c.bad("%v", err)
	}
	if d.Outcome == string(protocol.Revise) {
		//workflowcheck:ignore // a pure function
		if _, err := protocol.Comments(answers); err != nil {
			return c.bad("%v", err)
		}
		to.Answers = answers
		return nil
	}
	ask := r.Questions
	if d.AnswersBlob != "" {
		m := answersBlob.FindStringSubmatch(d.AnswersBlob)
		if m == nil || m[1] != c.s.id || !strings.HasPrefix(r.Digest, m[2]) {
			return c.bad("answers_blob is not a key that the worker's API returned for this request: send the secret answers through the API again")
		}
		ask = nil
		for _, q := range r.Questions {
			if _, ok := answers[q.ID]; ok {
				ask = append(ask, q)
			} else {
				to.Secret = append(to.Secret, q.ID)
			}
		}
		to.AnswersBlob = d.AnswersBlob
	}
	for _, q := range ask {
		if _, ok := answers[q.ID]; ok && q.Secret {
			return c.bad("the answer to %.100q is secret and must not stand in a message: `ctl approval answer %s --secret %s=-` takes it another way", q.ID, d.Approval, q.ID)
		}
	}
	if len(ask) == 0 && len(answers) == 0 {
		return nil
	}
	if to.Answers, err = activities.CheckAnswers(ask, answers); err != nil {
		return c.bad("%v", err)
	}
	return nil
}

func readAnswers(raw json.RawMessage) (map[string][]string, error) {
	out := map[string][]string{}
	if !given(raw) {
		return out, nil
	}
	var in map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	//workflowcheck:ignore // JSON is a pure function
	if err := d.Decode(&in); err != nil {
		return nil, fmt.Errorf("answers are an object of texts or lists of texts by the ids of the questions: %.200v", err)
	}
	for _, id := range workflow.DeterministicKeys(in) {
		texts, ok := textsOf(in[id])
		if !ok {
			return nil, fmt.Errorf("the answer to %.100q is neither a text nor a list of texts", id)
		}
		out[id] = texts
	}
	return out, nil
}

// textsOf decodes one answer. Form fields may have numbers or booleans.
func textsOf(v any) ([]string, bool) {
	switch v := v.(type) {
	case string:
		return []string{v}, true
	case json.Number:
		return []string{v.String()}, true
	case bool:
		return []string{strconv.FormatBool(v)}, true
	case []any:
		out := []string{}
		for _, one := range v {
			texts, ok := textsOf(one)
			if _, list := one.([]any); list || !ok {
				return nil, false
			}
			out = append(out, texts...)
		}
		return out, true
	}
	return nil, false
}

func (c checkedDecide) grant(to *protocol.Decision) error {
	d, r := c.d, c.a.Request
	switch {
	case d.Outcome != string(protocol.Grant):
		return nil
	case !given(d.Grant):
		return c.bad("outcome grant needs the field grant, which says which permissions are given (or decline it)")
	}
	if err := activities.Within(d.Grant, r.Permissions); err != nil {
		return c.bad("%v", err)
	}
	to.Grant = d.Grant
	return nil
}

func (s *approvalsPart) takeDecide(d protocol.Decide) (protocol.Approval, error) {
	d = plainDecide(d)
	a, decision, err := s.checkDecide(d)
	if err != nil {
		return protocol.Approval{}, err
	}
	if s.agree(a, d, &decision) {
		s.decide(a, decision)
	}
	return s.approvalView(a), nil
}
