package session

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/sshsig"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/ruling"
)

// If a policy names approvers, a decision counts only with an approver's signature over
// exactly this decision on exactly this approval. To accept, as many people as the policy
// requires must sign the same. To decline, one is enough. An expiry needs no signature.

// MaxSignature bounds an armored signature, in bytes: an RSA certificate is the longest.
const MaxSignature = 32 << 10

// agreedOn is equal if two people agree.
func agreedOn(a protocol.Agreement) [3]string { return [3]string{a.Outcome, a.Scope, a.Payload} }

// SignedMessage returns the text that a decision's signature covers, with askedAt as in the
// approval's JSON.
func SignedMessage(session string, askedAt time.Time, d protocol.Decide) ([]byte, error) {
	payload, err := payloadOf(d)
	if err != nil {
		return nil, err
	}
	what := sshsig.Decision{
		Session: session, Approval: d.Approval, AskedAt: moment(askedAt), Digest: d.Digest,
		Outcome: d.Outcome, Scope: cmp.Or(d.Scope, "once"), Payload: payload,
	}
	//workflowcheck:ignore // JSON of plain texts is a pure function
	return what.Message()
}

func moment(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// payloadOf returns the SHA-256 of the canonical JSON of the answers or the grant, or "".
// With secret answers that is {"answers":{…},"answers_blob":"…"}, with the plain answers
// and the blob's key.
func payloadOf(d protocol.Decide) (string, error) {
	raw := d.Answers
	if given(d.Grant) {
		raw = d.Grant
	}
	if d.AnswersBlob != "" {
		if !given(d.Answers) {
			d.Answers = json.RawMessage("{}")
		}
		raw = json.RawMessage(`{"answers":` + string(d.Answers) + `,"answers_blob":` + quoted(d.AnswersBlob) + `}`)
	}
	if !given(raw) {
		return "", nil
	}
	text, err := canonicalJSON(raw)
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:]), err
}

func quoted(s string) string {
	//workflowcheck:ignore // JSON is a pure function
	b, _ := json.Marshal(s) // cannot fail
	return string(b)
}

// canonicalJSON returns raw with sorted keys, no spaces, and numbers as written.
func canonicalJSON(raw []byte) (string, error) {
	if !utf8.Valid(raw) {
		return "", errors.New("answers and grants are text in UTF-8")
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	//workflowcheck:ignore // JSON is a pure function: map keys are sorted
	if err := d.Decode(&v); err != nil {
		return "", fmt.Errorf("answers and grants are JSON: %w", err)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	//workflowcheck:ignore // as above
	if err := e.Encode(v); err != nil {
		return "", err
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// plainDecide replaces answers and grant by exactly what was signed. If a key occurs twice,
// another parser might take the other value.
func plainDecide(d protocol.Decide) protocol.Decide {
	if d.Signature == "" {
		return d
	}
	for _, raw := range []*json.RawMessage{&d.Answers, &d.Grant} {
		if text, err := canonicalJSON(*raw); given(*raw) && err == nil {
			*raw = json.RawMessage(text)
		}
	}
	return d
}

// signing returns the policies that require signatures, including broken ones.
func (s *approvalsPart) signing() (all []ruling.Ruling) {
	for _, r := range s.rulings() {
		if r.Allowed() != nil || r.Broken() != "" {
			all = append(all, r)
		}
	}
	return all
}

func (c checkedDecide) signed(*protocol.Decision) error {
	_, err := c.s.signers(c.a, c.d)
	return err
}

// signers checks a decision by each policy that names approvers, and returns the signer's
// agreement. At least one policy must accept the signature.
func (s *approvalsPart) signers(a *approvalState, d protocol.Decide) (protocol.Agreement, error) {
	word := protocol.Agreement{By: d.By, Outcome: d.Outcome, Scope: cmp.Or(d.Scope, "once"), Reason: d.Reason, At: workflow.Now(s.ctx)}
	if len(d.Signature) > MaxSignature {
		return word, kit.Refuse(protocol.RefusedBadInput, "decide %s: its signature is %d bytes long, at most %d", d.Approval, len(d.Signature), MaxSignature)
	}
	policies := s.signing()
	if len(policies) == 0 {
		return word, nil
	}
	message, err := SignedMessage(s.id, a.AskedAt, d)
	if err != nil {
		return word, kit.Refuse(protocol.RefusedBadInput, "decide %s: %v", d.Approval, err)
	}
	if word.Payload, err = payloadOf(d); err != nil {
		return word, kit.Refuse(protocol.RefusedBadInput, "decide %s: %v", d.Approval, err)
	}
	word.As, word.By = map[string]string{}, ""
	for _, r := range policies { // it may require more than the others
		if r.Broken() != "" {
			return word, kit.Refuse(protocol.RefusedState, "decide %s: the policy of the %s cannot be used, so nobody can tell who may decide: %.300s", d.Approval, r.Of, r.Broken())
		}
	}
	var why error
	for _, r := range policies {
		who, err := s.signer(r, d, message)
		if err != nil {
			why = err
			continue
		}
		word.As[r.Of] = who
		word.By = cmp.Or(word.By, who)
	}
	switch {
	case word.By == "":
		return word, why
	case slices.ContainsFunc(a.Agreed, func(other protocol.Agreement) bool { return agreesAgain(word, other) }):
		return word, kit.Refuse(protocol.RefusedState, "decide %s: %s said so already; %s", d.Approval, word.By, s.missingText(a))
	case oneSuffices(word.Outcome):
	case slices.ContainsFunc(a.TakenBack, func(other protocol.Agreement) bool { return agreesAgain(word, other) }):
		return word, kit.Refuse(protocol.RefusedState, "decide %s: %s decided this before and then changed it: an earlier decision is not accepted again, because anybody could resend its signature (the newer one counts, and %s can still decline)", d.Approval, word.By, word.By)
	case len(a.TakenBack) >= MaxTakenBack && slices.ContainsFunc(a.Agreed, func(other protocol.Agreement) bool { return samePerson(word, other) }):
		return word, kit.Refuse(protocol.RefusedState, "decide %s: decisions on it were changed %d times, which is the limit: %s can now only decline", d.Approval, MaxTakenBack, word.By)
	}
	return word, nil
}

// signer returns who signed, if the policy lets that person decide.
func (s *approvalsPart) signer(r ruling.Ruling, d protocol.Decide, message []byte) (string, error) {
	if d.Signature == "" {
		return "", kit.Refuse(protocol.RefusedState, "decide %s: only signed decisions count (%s): `ctl approval %s %s --sign-with KEYFILE` or `--sign-with agent`; by hand: `ctl approval message %s %s`",
			d.Approval, r.Wants(), d.Outcome, d.Approval, d.Approval, d.Outcome)
	}
	//workflowcheck:ignore // a pure function: the moment is the workflow's
	who, err := sshsig.Verify([]byte(d.Signature), sshsig.Namespace, message, r.Allowed(), workflow.Now(s.ctx))
	if err != nil {
		return "", kit.Refuse(protocol.RefusedState, "decide %s: its signature does not count (%s): %.300v", d.Approval, r.Wants(), err)
	}
	if r.RequesterMayDecide {
		return who, nil
	}
	if s.unknownAsks() {
		return "", kit.Refuse(protocol.RefusedState, "decide %s: the sender of a message of turn %d is unknown, and by the policy a sender may not decide: interrupt the turn, or let the approval expire", d.Approval, s.st.TurnN)
	}
	for _, by := range s.st.Requesters {
		if s.isBehind(r, who, by) {
			return "", kit.Refuse(protocol.RefusedState, "decide %s: %s sent a message of this turn, and by the policy a sender may not decide (%s)", d.Approval, who, r.Wants())
		}
	}
	return who, nil
}

func samePerson(a protocol.Agreement, b protocol.Agreement) bool {
	for _, of := range []string{ruling.OfSession, ruling.OfSeed} {
		if a.As[of] != "" && a.As[of] == b.As[of] {
			return true
		}
	}
	return false
}

func agreesAgain(a protocol.Agreement, b protocol.Agreement) bool {
	return samePerson(a, b) && agreedOn(a) == agreedOn(b)
}

// MaxTakenBack bounds how often people may change their minds on one approval.
const MaxTakenBack = 20

// agree reports whether a decision is enough. An earlier, other decision of the signer
// never counts again: a signature has no time, so everybody who may send messages could
// send the earlier one again.
func (s *approvalsPart) agree(a *approvalState, d protocol.Decide, to *protocol.Decision) bool {
	policies := s.signing()
	word, err := s.signers(a, d)
	if err != nil || len(policies) == 0 {
		return err == nil
	}
	to.By, to.Signed = word.By, true
	if oneSuffices(d.Outcome) {
		return true
	}
	for _, b := range a.Agreed {
		if samePerson(b, word) {
			b.Reason = ""
			a.TakenBack = append(a.TakenBack, b)
		}
	}
	a.Agreed = slices.DeleteFunc(a.Agreed, func(other protocol.Agreement) bool { return samePerson(word, other) })
	a.Agreed = append(a.Agreed, word)
	s.st.UpdatedAt = to.At
	if s.missing(a, agreedOn(word)) > 0 {
		s.note(conversation.Note{Type: protocol.EntryState, Turn: a.Turn, Text: fmt.Sprintf("%s agrees to %s %s; %s", word.By, d.Outcome, s.approvalID(a.N), s.missingText(a)),
			Data: map[string]string{"approval": s.approvalID(a.N), "outcome": d.Outcome, "by": word.By, "scope": to.Scope, "payload": word.Payload, "reason": d.Reason, "signed": "true"}})
		return false
	}
	var names []string
	for _, b := range a.Agreed {
		if agreedOn(b) == agreedOn(word) {
			names = append(names, b.By)
		}
	}
	to.By = strings.Join(names, ", ")
	return true
}

func oneSuffices(outcome string) bool {
	return outcome == string(protocol.Decline) || outcome == string(protocol.Cancel) || outcome == string(protocol.Revise)
}

// missing returns how many more people must agree on word.
func (s *approvalsPart) missing(a *approvalState, word [3]string) (most int) {
	for _, r := range s.signing() {
		who := map[string]bool{}
		for _, b := range a.Agreed {
			if agreedOn(b) == word && b.As[r.Of] != "" {
				who[b.As[r.Of]] = true
			}
		}
		most = max(most, r.Required-len(who))
	}
	return most
}

// lacking returns how many are missing for the decision that most agree on.
func (s *approvalsPart) lacking(a *approvalState) int {
	least := s.missing(a, [3]string{})
	for _, b := range a.Agreed {
		least = min(least, s.missing(a, agreedOn(b)))
	}
	return least
}

func (s *approvalsPart) missingText(a *approvalState) string {
	n := s.lacking(a)
	if n == 1 {
		return "1 more must agree"
	}
	return fmt.Sprintf("%d more must agree", n)
}

func (s *approvalsPart) signedView(a *approvalState, v *protocol.Approval) {
	v.Ruling, v.Agreed = a.Request.Ruling, a.Agreed
	if a.State != protocol.ApprovalOpen {
		return
	}
	for _, r := range s.signing() {
		if allowed := r.Allowed(); allowed != nil {
			for _, name := range allowed.Principals() {
				if !slices.Contains(v.Approvers, name) {
					v.Approvers = append(v.Approvers, name)
				}
			}
			v.Signed = true
		}
	}
	if v.Signed {
		v.Missing = s.lacking(a)
	}
}

// mayServe reports whether an earlier decision by these people may answer the same request
// now. If requesters may not decide, none of them may be a requester of this turn.
func (s *approvalsPart) mayServe(by string) bool {
	for _, r := range s.signing() {
		if r.Broken() != "" || !r.RequesterMayDecide && s.unknownAsks() {
			return false // nobody knows who asks
		}
		for _, who := range strings.Split(by, ", ") {
			for _, asker := range s.st.Requesters {
				if !r.RequesterMayDecide && s.isBehind(r, who, asker) {
					return false
				}
			}
		}
	}
	return true
}

// askerDecides reports whether no policy keeps requesters from deciding. A broken policy
// does.
func (s *approvalsPart) askerDecides() bool {
	return !slices.ContainsFunc(s.signing(), func(r ruling.Ruling) bool { return !r.RequesterMayDecide })
}

// lasting refuses decisions that codex itself would remember, if requesters may not decide:
// codex would not ask again, whoever sent the next message.
func (c checkedDecide) lasting(*protocol.Decision) error {
	d := c.d
	grants := d.Outcome == string(protocol.Grant) && d.Scope == protocol.ScopeSession
	if !grants && d.Outcome != string(protocol.Amend) || c.s.askerDecides() {
		return nil
	}
	what := "an amendment"
	if grants {
		what = "a grant for the session"
	}
	return c.no("%s would also apply to later messages, whoever sends them, and by the policy a sender may not decide: accept or grant it with scope once", what)
}
