package conversation

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// The logins of a pump deal with access tokens: they ask the broker, log codex in after
// each start, and answer codex's requests for a newer token. The part owns TokenAsks (which
// a turn's end clears), Login and Account of the state. It may call the asks and the autos.
type logins struct {
	*core
	asks  *asks
	autos *autos

	wants    []tokenWant     // for the driver to ask the broker
	wanted   map[string]bool // keys of wants, and of earlier wants
	loginAt  time.Duration   // when codex took the login
	loggedIn bool            // codex said that the login is complete
	askedAt  time.Duration   // when codex last asked for a token
}

// wake registers when to stop waiting for a login, and for an answer to codex.
func (k *logins) wake(soon func(time.Duration)) {
	if a := k.asks.all[askLogin]; a != nil && a.done && !k.loggedIn {
		soon(k.loginAt + loginGrace)
	}
	if len(k.st.TokenAsks) > 0 {
		soon(k.askedAt + tokenGrace)
	}
}

// A tokenWant is a question for the broker. Its key is the id of codex's request in
// hex, empty for a login.
type tokenWant struct {
	key string
	ask TokenAsk
}

type tokenAnswered struct {
	key   string
	token Token
	err   error
}

// ensure logs codex in, once per process, and reports whether the login is complete or not
// needed.
func (k *logins) ensure() bool {
	a := k.asks.all[askLogin]
	switch {
	case a == nil:
		return true
	case a.done:
		return k.loggedIn || k.now-k.loginAt >= loginGrace
	case a.sent || a.next > k.now:
		return false
	case a.params == nil:
		k.want("", TokenAsk{})
		return false
	}
	k.asks.send(askLogin)
	return k.asks.all[askLogin].done
}

// want asks the broker for a token, once for each key.
func (k *logins) want(key string, ask TokenAsk) {
	if k.wanted == nil {
		k.wanted = map[string]bool{}
	}
	if !k.wanted[key] {
		k.wanted[key] = true
		k.wants = append(k.wants, tokenWant{key, ask})
	}
}

// brokered handles the broker's answer.
func (k *logins) brokered(a tokenAnswered) {
	if a.err == nil && a.token.access == nil {
		a.err = errors.New("the broker gave none")
	}
	var no *TokenError
	if a.err != nil && !errors.As(a.err, &no) {
		k.err = fmt.Errorf("get an access token for codex: %w", a.err)
		return
	}
	if a.err == nil {
		if k.opt.Redactor == nil {
			k.opt.Redactor = NewRedactor()
		}
		k.opt.Redactor.Add(*a.token.access)
	}
	switch {
	case a.key == "" && no != nil && no.Code == TokenLater:
		k.err = fmt.Errorf("get an access token for codex: %w", a.err)
	case a.key == "" && no != nil:
		k.giveUp(Refused, &protocol.Problem{Kind: "auth", Message: "codex cannot be logged in: " + no.Error(), Hint: tokenProblems[no.Code][1]})
	case a.key == "":
		k.asks.all[askLogin].params = loginParams{"chatgptAuthTokens", *a.token.access, a.token.account, a.token.plan}
		k.asks.all[askLogin].token = a.token.generation
	default:
		k.answer(a, no)
	}
}

// answer answers codex's request for a token and then sends a request of its own. The
// journal does not show our answers to codex. But it shows codex's answer to our request,
// which proves that codex got the answer before it.
func (k *logins) answer(a tokenAnswered, no *TokenError) {
	i := k.st.tokenAsk(a.key)
	if i < 0 {
		return // the turn that wanted it is over
	}
	o, word := wire.Outgoing{ID: k.st.TokenAsks[i]}, a.token.generation
	if no != nil {
		o.Error = &wire.RPCError{Code: int64(no.Code), Message: tokenProblems[no.Code][0]}
		word = int64(no.Code)
	} else {
		o.Result = tokenAnswer{*a.token.access, a.token.account, a.token.plan}
	}
	k.write(o)
	k.write(wire.Outgoing{ID: fmt.Sprintf("%s.token-%d-%s.0", k.in.Prefix, word, a.key), Method: methodLoaded, Params: struct{}{}})
}

// asked handles codex's request for a newer token. No person is asked.
func (k *logins) asked(msg *wire.Message) {
	if k.opt.Broker == nil || len(k.st.TokenAsks) >= maxTokenAsks {
		k.autos.refuse(msg, "")
		return
	}
	var p struct {
		Reason  string `json:"reason"`
		Account string `json:"previousAccountId"`
	}
	_ = json.Unmarshal(msg.Params, &p) // only passed on
	if k.st.tokenAsk(tokenKey(msg.ID)) < 0 {
		k.st.TokenAsks = append(k.st.TokenAsks, append(json.RawMessage(nil), msg.ID...))
	}
	k.st.Account = p.Account
	k.askedAt = k.now
	k.entry(protocol.Entry{Type: protocol.EntryState, Turn: k.st.Turn, Status: "login", Text: "codex asked for a newer access token",
		Data: map[string]string{"reason": p.Reason}})
}

func tokenKey(id json.RawMessage) string { return hex.EncodeToString([]byte(wire.IDKey(id))) }

// get asks the broker for the tokens that codex waits for. A request that an earlier pump
// may have answered is answered again, because codex takes the first answer.
func (k *logins) get() {
	for _, id := range k.st.TokenAsks {
		k.want(tokenKey(id), TokenAsk{Reason: "refresh", Account: k.st.Account, Have: k.st.Login})
	}
}

// given handles codex's answer to the request that the method answer sends last. It proves
// that codex got the token or the refusal.
func (k *logins) given(what, key string) {
	word, err := strconv.ParseInt(what, 10, 64)
	if err != nil {
		return
	}
	i := k.st.tokenAsk(key)
	if i < 0 {
		return // said before
	}
	k.st.TokenAsks = slices.Delete(k.st.TokenAsks, i, i+1)
	e := protocol.Entry{Type: protocol.EntryState, Turn: k.st.Turn, Status: "login"}
	if words, refused := tokenProblems[int(word)]; refused {
		e.Text = "codex got no newer access token: " + words[0]
	} else {
		k.st.Login = word
		e.Text = fmt.Sprintf("codex got the access token of generation %d of its login", word)
	}
	k.entry(e)
}

// loginAnswered handles codex's answer to a login, whose id contains the
// generation.
func (k *logins) loginAnswered(generation string, r *wire.Message) {
	if r.Error != nil {
		kind := "auth"
		if strings.Contains(r.Error.Message, "unknown variant") {
			kind = "version"
		}
		k.giveUp(Refused, problem(kind, "codex does not take the access token: "+r.Error.Message))
		return
	}
	k.st.Login, _ = strconv.ParseInt(generation, 10, 64)
	k.loginAt = k.now
}

// loginCompleted handles codex's notification that a login has completed. Turns
// work even if codex could not ask its provider about the account.
func (k *logins) loginCompleted(p json.RawMessage) {
	k.loggedIn = true
	var n struct {
		Success bool   `json:"success"`
		Error   string `json:"error"`
	}
	if json.Unmarshal(p, &n) == nil && !n.Success {
		k.warn("codex could not look up the account of its access token: " + n.Error)
	}
}

// dashed splits the name of one of our asks at its dashes: login-7, token-8-30.
func dashed(name string) (word, key string) {
	_, rest, _ := strings.Cut(name, "-")
	i := strings.LastIndexByte(rest, '-')
	if i < 0 {
		return rest, ""
	}
	return rest[:i], rest[i+1:]
}

const (
	methodLogin        = "account/login/start"
	methodTokenRefresh = "account/chatgptAuthTokens/refresh"
	methodLoaded       = "thread/loaded/list"

	// loginGrace is how long to wait for an accepted login to complete. During the login
	// codex asks its provider for something that turns do not need, which may take long. If
	// a thread is opened before the login is complete, codex may refuse it (measured).
	loginGrace = 5 * time.Second
	// tokenGrace is how long a pump with nothing else to do waits for a token that codex
	// requested. codex itself waits 10 s.
	tokenGrace = 15 * time.Second
	// maxTokenAsks bounds the token requests that are open at once.
	maxTokenAsks = 16
)

type loginParams struct {
	Type    string `json:"type"` // chatgptAuthTokens
	Access  string `json:"accessToken"`
	Account string `json:"chatgptAccountId"`
	Plan    string `json:"chatgptPlanType,omitempty"`
}

type tokenAnswer struct {
	Access  string `json:"accessToken"`
	Account string `json:"chatgptAccountId"`
	Plan    string `json:"chatgptPlanType,omitempty"`
}

func (s *PumpState) tokenAsk(key string) int {
	return slices.IndexFunc(s.TokenAsks, func(id json.RawMessage) bool { return tokenKey(id) == key })
}
