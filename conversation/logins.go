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

// The logins part asks the broker for access tokens, logs codex in after each start, and
// answers its requests for a newer token. It owns TokenAsks (cleared at a turn's end),
// Login and Account of the state. It may call the asks and the autos.
type logins struct {
	*core
	asks  *asks
	autos *autos

	wants    []tokenWant
	wanted   map[string]bool // keys of wants, also of earlier ones
	loginAt  time.Duration
	loggedIn bool
	askedAt  time.Duration
}

func (k *logins) wake(soon func(time.Duration)) {
	if a := k.asks.all[askLogin]; a != nil && a.done && !k.loggedIn {
		soon(k.loginAt + loginGrace)
	}
	if len(k.st.TokenAsks) > 0 {
		soon(k.askedAt + tokenGrace)
	}
}

// A tokenWant is a question for the broker. Its key is the request's id in hex, empty for a
// login.
type tokenWant struct {
	key string
	ask TokenAsk
}

type tokenAnswered struct {
	key   string
	token Token
	err   error
}

// ensure logs codex in, once per process, and reports whether that is complete or not
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

// want asks the broker once for each key.
func (k *logins) want(key string, ask TokenAsk) {
	if k.wanted == nil {
		k.wanted = map[string]bool{}
	}
	if !k.wanted[key] {
		k.wanted[key] = true
		k.wants = append(k.wants, tokenWant{key, ask})
	}
}

func (k *logins) brokered(a tokenAnswered) {
	if a.err == nil && a.token.access == nil {
		a.err = errors.New("the broker returned an empty token")
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

// answer gives codex a token or a refusal, and then sends a request of its own: the journal
// does not show our answers, but codex's answer to that request proves that codex got ours.
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

// get asks for the tokens that codex waits for, also if an earlier pump may have answered:
// codex takes the first answer.
func (k *logins) get() {
	for _, id := range k.st.TokenAsks {
		k.want(tokenKey(id), TokenAsk{Reason: "refresh", Account: k.st.Account, Have: k.st.Login})
	}
}

// given handles codex's answer to the request that the method answer sends last.
func (k *logins) given(what, key string) {
	word, err := strconv.ParseInt(what, 10, 64)
	if err != nil {
		return
	}
	i := k.st.tokenAsk(key)
	if i < 0 {
		return // recorded before
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

// loginAnswered handles codex's answer to a login, whose id has the generation.
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

// loginCompleted also goes on after a failure: turns work even if codex could not look up
// the account.
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

// dashed splits the name of an ask at its dashes: login-7, token-8-30.
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

	// loginGrace bounds the wait for an accepted login to complete, while codex asks its
	// provider for something that turns do not need. Before that, codex may refuse to open
	// a thread (measured).
	loginGrace = 5 * time.Second
	// tokenGrace is how long an otherwise idle pump waits for a token. codex waits 10 s.
	tokenGrace   = 15 * time.Second
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
