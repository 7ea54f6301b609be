package conversation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// aToken is a made-up access token. It must appear only in messages to codex.
const aToken = "header.made-up-access-token.signature"

// With noBroker the machine asks for tokens, and tests answer by hand.
var noBroker = Options{Broker: func(_ context.Context, _ TokenAsk) (Token, error) { panic("the machine asks nobody by itself") }}

func freshInput() PumpInput {
	return PumpInput{
		State:  PumpState{Cursor: protocol.Cursor{Incarnation: 1}},
		Thread: ThreadSpec{CWD: "/work", Sandbox: "read-only", ApprovalPolicy: "on-request"},
	}
}

const saidInitialized = `{"id":"g1.p9.initialize.0","result":{"userAgent":"fairlead/0.169.0 (Debian)"}}`

// wantsToken takes the machine's open token requests.
func (s *stage) wantsToken() []tokenWant {
	w := s.m.logins.wants
	s.m.logins.wants = nil
	return w
}

func (s *stage) give(key string, t Token, err error) {
	s.m.brokered(tokenAnswered{key, t, err}, s.m.now)
	s.collect()
}

func (s *stage) saidMethod(method string) (found []string) {
	for _, l := range s.said {
		if strings.Contains(l, `"method":"`+method+`"`) {
			found = append(found, l)
		}
	}
	return found
}

func refreshAsked(id int) string {
	return fmt.Sprintf(`{"method":"account/chatgptAuthTokens/refresh","id":%d,"params":{"reason":"unauthorized","previousAccountId":"acct-1"}}`, id)
}

func TestCodexIsLoggedInBeforeItsThreadIsOpened(t *testing.T) {
	s := perform(t, freshInput(), noBroker)
	s.hear(saidInitialized)
	if w := s.wantsToken(); len(w) != 1 || w[0].key != "" || w[0].ask.Have != 0 {
		t.Fatalf("asked the broker %+v", w)
	}
	s.give("", NewToken(aToken, "acct-1", "pro", 7), nil)
	want := `{"id":"g1.p9.login-7.0","method":"account/login/start","params":{"type":"chatgptAuthTokens","accessToken":"` + aToken + `","chatgptAccountId":"acct-1","chatgptPlanType":"pro"}}`
	if last := s.said[len(s.said)-1]; last != want {
		t.Fatalf("said %s, want %s", last, want)
	}
	s.hear(`{"id":"g1.p9.login-7.0","result":{"type":"chatgptAuthTokens"}}`)
	if got := s.saidMethod(wire.MethodStart); got != nil {
		t.Errorf("the thread was opened before the login was complete: %s", got)
	}
	s.hear(`{"method":"account/login/completed","params":{"loginId":null,"success":false,"error":"workspace routing discovery failed"}}`)
	if got := s.saidMethod(wire.MethodStart); len(got) != 1 {
		t.Errorf("the thread was opened %d times", len(got))
	}
	if s.m.st.Login != 7 {
		t.Errorf("codex has generation %d", s.m.st.Login)
	}
	// If codex answers that it cannot look something up, nothing changes.
	s.hear(`{"id":"g1.p9.account.0","error":{"code":-32603,"message":"workspace routing discovery failed"}}`)
	s.attached()
}

func TestLoginThatNeverSaysItIsCompleteHoldsUpNobody(t *testing.T) {
	s := perform(t, freshInput(), noBroker)
	s.hear(saidInitialized)
	s.give("", NewToken(aToken, "acct-1", "pro", 7), nil)
	s.hear(`{"id":"g1.p9.login-7.0","result":{"type":"chatgptAuthTokens"}}`)
	s.wait(loginGrace)
	if got := s.saidMethod(wire.MethodStart); len(got) != 1 {
		t.Errorf("the thread was opened %d times", len(got))
	}
}

func TestLaterAttemptFindsTheLoginInTheJournal(t *testing.T) {
	opt := noBroker
	opt.Attempt = 2
	s := perform(t, freshInput(), opt, saidInitialized,
		`{"id":"g1.p9.login-7.0","result":{"type":"chatgptAuthTokens"}}`,
		`{"method":"account/login/completed","params":{"success":true}}`)
	if w := s.wantsToken(); w != nil {
		t.Errorf("asked the broker again: %+v", w)
	}
	if s.m.st.Login != 7 {
		t.Errorf("codex has generation %d", s.m.st.Login)
	}
}

func TestDeadLoginBeginsNoThread(t *testing.T) {
	s := perform(t, freshInput(), noBroker)
	s.hear(saidInitialized)
	s.give("", Token{}, &TokenError{TokenDead, errors.New("seed team is dead: invalid_grant")})
	r := s.result(Refused)
	if r.Problem.Kind != "auth" || !strings.Contains(r.Problem.Message, "seed team is dead") || r.Problem.Hint == "" {
		t.Errorf("problem %+v", r.Problem)
	}
	if got := s.saidMethod(methodLogin); got != nil {
		t.Errorf("said %s", got)
	}
}

func TestTokenThatCannotBeHadNowEndsThePumpToBeRunAgain(t *testing.T) {
	for _, err := range []error{errors.New("the store is down"), &TokenError{TokenLater, errors.New("the endpoint says 503")}} {
		s := perform(t, freshInput(), noBroker)
		s.hear(saidInitialized)
		s.give("", Token{}, err)
		if !errors.Is(s.m.err, err) {
			t.Errorf("the pump's error is %v", s.m.err)
		}
	}
}

func TestTooOldACodexSaysSo(t *testing.T) {
	s := perform(t, freshInput(), noBroker)
	s.hear(saidInitialized)
	s.give("", NewToken(aToken, "acct-1", "pro", 7), nil)
	s.hear(`{"id":"g1.p9.login-7.0","error":{"code":-32600,"message":"Invalid request: unknown variant ` + "`chatgptAuthTokens`" + `"}}`)
	if r := s.result(Refused); r.Problem.Kind != "version" {
		t.Errorf("problem %+v", r.Problem)
	}
}

func TestRefreshIsAnsweredWithANewerTokenAndAsksNoPerson(t *testing.T) {
	st := running()
	st.Login = 7
	s := perform(t, PumpInput{State: st}, noBroker)
	s.hear(refreshAsked(3))
	w := s.wantsToken()
	if len(w) != 1 || w[0].ask != (TokenAsk{Reason: "refresh", Account: "acct-1", Have: 7}) {
		t.Fatalf("asked the broker %+v", w)
	}
	s.wait(time.Second)
	s.attached()
	s.give(w[0].key, NewToken(aToken, "acct-1", "", 8), nil)
	s.heard(`{"id":3,"result":{"accessToken":"`+aToken+`","chatgptAccountId":"acct-1"}}`,
		`{"id":"g1.p9.token-8-`+w[0].key+`.0","method":"thread/loaded/list","params":{}}`)
	if s.m.st.Login != 7 || len(s.m.st.TokenAsks) != 1 {
		t.Errorf("taken for delivered before codex said anything: %+v", s.m.st)
	}
	s.hear(`{"id":"g1.p9.token-8-` + w[0].key + `.0","result":{"data":[]}}`)
	if s.m.st.Login != 8 || len(s.m.st.TokenAsks) != 0 {
		t.Errorf("state %+v", s.m.st)
	}
	if len(s.m.requests.seen) != 0 || len(s.m.st.Open) != 0 {
		t.Error("it became an approval")
	}
	s.hear(completed("a-1", "agentMessage", `,"text":"my token is `+aToken+`"`), turnDone("completed", ""))
	r := s.result(TurnEnded)
	all, err := json.Marshal([]any{r, s.sink.entries})
	if err != nil || strings.Contains(string(all), aToken) {
		t.Errorf("the token is on record (%v): %s", err, all)
	}
}

func TestWhatAnEarlierPumpWasAskedTheNextOneAnswers(t *testing.T) {
	s := perform(t, PumpInput{State: running()}, noBroker)
	s.hear(refreshAsked(3))
	s.m.cancel(s.m.now)
	r := s.result(PumpCancelled)
	s = perform(t, PumpInput{State: r.State}, noBroker)
	w := s.wantsToken()
	if len(w) != 1 {
		t.Fatalf("asked the broker %+v", w)
	}
	s.give(w[0].key, NewToken(aToken, "acct-1", "pro", 8), nil)
	if len(s.said) != 2 || !strings.HasPrefix(s.said[0], `{"id":3,"result"`) {
		t.Errorf("said %s", s.said)
	}
}

func TestPumpStaysForATokenAlthoughAPersonIsAsked(t *testing.T) {
	s := perform(t, PumpInput{State: running()}, noBroker)
	s.hear(started("c-1", "commandExecution", ""), asking(2, "c-1", "make"), refreshAsked(3))
	s.wait(5 * time.Second)
	s.attached()
	w := s.wantsToken()
	s.give(w[0].key, NewToken(aToken, "acct-1", "pro", 8), nil)
	s.hear(`{"id":"g1.p9.token-8-` + w[0].key + `.0","result":{}}`)
	s.wait(5 * time.Second)
	if r := s.result(RequestsOpen); len(r.Requests) != 1 {
		t.Errorf("requests %+v", r.Requests)
	}
	// The pump does not wait for a token forever either.
	s = perform(t, PumpInput{State: running()}, noBroker)
	s.hear(started("c-1", "commandExecution", ""), asking(2, "c-1", "make"), refreshAsked(3))
	s.wait(time.Minute)
	s.result(RequestsOpen)
}

func TestRefusedTokenFailsTheTurnWithWhatToDo(t *testing.T) {
	s := perform(t, PumpInput{State: running()}, noBroker)
	s.hear(refreshAsked(3))
	w := s.wantsToken()
	s.give(w[0].key, Token{}, &TokenError{TokenDead, errors.New("a cause that stays here")})
	if len(s.said) != 2 || !strings.HasPrefix(s.said[0], `{"id":3,"error":{"code":-32041`) || strings.Contains(s.said[0], "stays here") {
		t.Fatalf("said %s", s.said)
	}
	s.hear(`{"id":"g1.p9.token--32041-`+w[0].key+`.0","result":{}}`,
		turnDone("failed", `,"error":{"message":"auth refresh request failed: code=-32041","codexErrorInfo":"other"}`))
	r := s.result(TurnEnded)
	if p := r.Turn.Problem; p == nil || p.Kind != "auth" || !strings.Contains(p.Message, "the login is over") || !strings.Contains(p.Hint, "log in") {
		t.Errorf("problem %+v", p)
	}
	if r.Turn.Effects {
		t.Error("the turn is said to have had effects")
	}
}

func TestUnansweredRefreshIsOfKindAuth(t *testing.T) {
	s := perform(t, PumpInput{State: running()}, noBroker)
	s.hear(turnDone("failed", `,"error":{"message":"auth refresh request timed out after 10s","codexErrorInfo":"other"}`))
	if p := s.result(TurnEnded).Turn.Problem; p == nil || p.Kind != "auth" {
		t.Errorf("problem %+v", p)
	}
}

func TestTurnTellsWhetherItMayHaveHadEffects(t *testing.T) {
	for kind, want := range map[string]bool{"agentMessage": false, "reasoning": false, "commandExecution": true, "fileChange": true, "mcpToolCall": true, "somethingNew": true} {
		s := perform(t, PumpInput{State: running()}, Options{})
		s.hear(started("i-1", kind, ""), turnDone("failed", ""))
		if r := s.result(TurnEnded); r.Turn.Effects != want || r.State.TurnEffects {
			t.Errorf("%s: effects %v, want %v; afterwards %v", kind, r.Turn.Effects, want, r.State.TurnEffects)
		}
	}
}

func TestSessionWithoutBrokerGivesNoToken(t *testing.T) {
	s := perform(t, PumpInput{State: running()}, Options{})
	s.hear(refreshAsked(3))
	s.heard(`{"id":3,"error":{"code":-32600,"message":"this session has no tokens to give"}}`)
}

func TestTokenIsNeverPrintedNorEncoded(t *testing.T) {
	token := NewToken(aToken, "acct-1", "pro", 8)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, v := range []any{token, &token, tokenAnswered{"", token, nil}} {
			if text := fmt.Sprintf(verb, v); strings.Contains(text, "made-up") || strings.Contains(text, fmt.Sprintf("%x", "made-up")) {
				t.Errorf("%s: %s", verb, text)
			}
		}
	}
	if data, err := json.Marshal(token); err == nil {
		t.Errorf("encoded as %s", data)
	}
}
