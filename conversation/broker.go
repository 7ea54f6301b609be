package conversation

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Token is a short-lived access token that codex is logged in with when the host
// has no credential. codex keeps it in memory only, so it is lost with the process.
// It prints as [secret].
type Token struct {
	access        *string // a pointer, because fmt prints unexported fields without calling Format
	account, plan string
	generation    int64
}

// NewToken makes a token of a login's generation. codex expects account and plan
// beside it.
func NewToken(access, account, plan string, generation int64) Token {
	return Token{&access, account, plan, generation}
}

// Format prints [secret], whatever the verb.
func (Token) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "[secret]") }

// MarshalJSON fails: only the message to codex may contain a token.
func (Token) MarshalJSON() ([]byte, error) {
	return nil, errors.New("a token is not to be written down")
}

// A TokenAsk says what a token is wanted for.
type TokenAsk struct {
	Reason  string // codex's word; empty for the login of a new process
	Account string // that codex is logged in with
	// Have is the generation of the token that codex has and that no longer works; 0 if
	// it has none.
	Have int64
}

// A Broker returns a token newer than the one codex has. It is called from a
// goroutine of the pump and must return when ctx ends. An error other than a
// *TokenError ends the pump, which is then run again.
type Broker func(ctx context.Context, ask TokenAsk) (Token, error)

// A TokenError says that no token is available. codex is told its code, and repeats
// it when its turn fails because of it.
type TokenError struct {
	Code int // one of the Token… codes
	Err  error
}

func (e *TokenError) Error() string { return e.Err.Error() }
func (e *TokenError) Unwrap() error { return e.Err }

// The codes of token errors. codex repeats only the code of a refusal.
const (
	TokenDead     = -32041 // the login is over: somebody has to log in again
	TokenTaken    = -32042 // the session no longer holds the login
	TokenLater    = -32043 // it could not be refreshed now
	TokenDoubtful = -32044 // it is not known whether the login is good
)

// tokenProblems gives for each code a description and what to do.
var tokenProblems = map[int][2]string{
	TokenDead: {"the login is over: the provider does not refresh it any more",
		"log in anew and import or capture the seed again (`ctl seed show` says more), then send the message again"},
	TokenTaken: {"the session does not hold its seed any more",
		"see who holds it with `ctl seed show`, then send the message again"},
	TokenDoubtful: {"nobody knows whether the login is still good",
		"`ctl seed show` says why, and what to do; then send the message again"},
	TokenLater: {"the login could not be refreshed in time",
		"see `ctl seed show` and whether the token endpoint can be reached from the workers, then send the message again"},
}

// tokenRefusedText is what codex writes before the code of our refusal.
const tokenRefusedText = "auth refresh request failed: code="

// tokenLateText is what codex says if it gets no answer for 10 s.
const tokenLateText = "auth refresh request timed out"

func tokenProblem(message string) *Problem {
	_, rest, ok := strings.Cut(message, tokenRefusedText)
	if !ok {
		return nil
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return r != '-' && (r < '0' || r > '9') })
	if end >= 0 {
		rest = rest[:end]
	}
	code, err := strconv.Atoi(rest)
	words, known := tokenProblems[code]
	if err != nil || !known {
		return nil
	}
	return &Problem{Kind: "auth", Message: "codex's access token did no more, and " + words[0] + " (" + message + ")", Hint: words[1], Passing: code == TokenLater}
}

const (
	methodLogin        = "account/login/start"
	methodTokenRefresh = "account/chatgptAuthTokens/refresh"
	methodLoaded       = "thread/loaded/list"

	// loginGrace is how long to wait for an accepted login to complete. codex asks its
	// provider for something that turns do not need. A thread that is opened earlier
	// may be refused (measured).
	loginGrace = 5 * time.Second
	// tokenGrace is how long a pump with nothing else to do waits for a token that
	// codex wants; codex itself waits 10 s.
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

// login logs codex in, once per process, and reports whether that is done.
func (m *machine) login() bool {
	a := m.asks.all[askLogin]
	switch {
	case a == nil:
		return true
	case a.done:
		return m.loggedIn || m.now-m.loginAt >= loginGrace
	case a.sent || a.next > m.now:
		return false
	case a.params == nil:
		m.want("", TokenAsk{})
		return false
	}
	m.asks.send(askLogin)
	return m.asks.all[askLogin].done
}

// want asks the broker for a token, once for each key.
func (m *machine) want(key string, ask TokenAsk) {
	if m.wanted == nil {
		m.wanted = map[string]bool{}
	}
	if !m.wanted[key] {
		m.wanted[key] = true
		m.wants = append(m.wants, tokenWant{key, ask})
	}
}

func (m *machine) brokered(a tokenAnswered, now time.Duration) {
	m.now = now
	if m.result != nil || m.err != nil {
		return
	}
	if a.err == nil && a.token.access == nil {
		a.err = errors.New("the broker gave none")
	}
	var no *TokenError
	if a.err != nil && !errors.As(a.err, &no) {
		m.err = fmt.Errorf("get an access token for codex: %w", a.err)
		return
	}
	if a.err == nil {
		if m.opt.Redactor == nil {
			m.opt.Redactor = NewRedactor()
		}
		m.opt.Redactor.Add(*a.token.access)
	}
	switch {
	case a.key == "" && no != nil && no.Code == TokenLater:
		m.err = fmt.Errorf("get an access token for codex: %w", a.err)
	case a.key == "" && no != nil:
		m.giveUp(Refused, &Problem{Kind: "auth", Message: "codex cannot be logged in: " + no.Error(), Hint: tokenProblems[no.Code][1]})
	case a.key == "":
		m.asks.all[askLogin].params = loginParams{"chatgptAuthTokens", *a.token.access, a.token.account, a.token.plan}
		m.asks.all[askLogin].token = a.token.generation
	default:
		m.answerToken(a, no)
	}
	m.step()
}

// answerToken answers codex's request and sends another request behind it. The
// journal does not show answers to codex; the answer to the second request shows
// that codex got the first.
func (m *machine) answerToken(a tokenAnswered, no *TokenError) {
	i := m.st.tokenAsk(a.key)
	if i < 0 {
		return // the turn that wanted it is over
	}
	o, word := outgoing{ID: m.st.TokenAsks[i]}, a.token.generation
	if no != nil {
		o.Error = &RPCError{Code: int64(no.Code), Message: tokenProblems[no.Code][0]}
		word = int64(no.Code)
	} else {
		o.Result = tokenAnswer{*a.token.access, a.token.account, a.token.plan}
	}
	m.write(o)
	m.write(outgoing{ID: fmt.Sprintf("%s.token-%d-%s.0", m.in.Prefix, word, a.key), Method: methodLoaded, Params: struct{}{}})
}

func tokenKey(id json.RawMessage) string { return hex.EncodeToString([]byte(idKey(id))) }

// tokenAsked handles codex's request for a newer token. No person is asked.
func (m *machine) tokenAsked(msg *message) {
	if m.opt.Broker == nil || len(m.st.TokenAsks) >= maxTokenAsks {
		m.autos.refuse(msg, "")
		return
	}
	var p struct {
		Reason  string `json:"reason"`
		Account string `json:"previousAccountId"`
	}
	_ = json.Unmarshal(msg.Params, &p) // only passed on
	if m.st.tokenAsk(tokenKey(msg.ID)) < 0 {
		m.st.TokenAsks = append(m.st.TokenAsks, append(json.RawMessage(nil), msg.ID...))
	}
	m.st.Account = p.Account
	m.tokenAt = m.now
	m.entry(Entry{Type: EntryState, Turn: m.st.Turn, Status: "login", Text: "codex asked for a newer access token",
		Data: map[string]string{"reason": p.Reason}})
}

// getTokens asks the broker for the tokens that codex waits for. A request that an
// earlier pump may have answered is answered again: codex takes the first answer.
func (m *machine) getTokens() {
	for _, id := range m.st.TokenAsks {
		m.want(tokenKey(id), TokenAsk{Reason: "refresh", Account: m.st.Account, Have: m.st.Login})
	}
}

// tokenGiven handles the answer to the request that answerToken sends second: it
// proves that codex got the token, or the refusal.
func (m *machine) tokenGiven(what, key string) {
	word, err := strconv.ParseInt(what, 10, 64)
	if err != nil {
		return
	}
	i := m.st.tokenAsk(key)
	if i < 0 {
		return // said before
	}
	m.st.TokenAsks = slices.Delete(m.st.TokenAsks, i, i+1)
	e := Entry{Type: EntryState, Turn: m.st.Turn, Status: "login"}
	if words, refused := tokenProblems[int(word)]; refused {
		e.Text = "codex got no newer access token: " + words[0]
	} else {
		m.st.Login = word
		e.Text = fmt.Sprintf("codex got the access token of generation %d of its login", word)
	}
	m.entry(e)
}

// loginAnswered handles codex's answer to a login, whose id contains the
// generation.
func (m *machine) loginAnswered(generation string, r *message) {
	if r.Error != nil {
		kind := "auth"
		if strings.Contains(r.Error.Message, "unknown variant") {
			kind = "version"
		}
		m.giveUp(Refused, problem(kind, "codex does not take the access token: "+r.Error.Message))
		return
	}
	m.st.Login, _ = strconv.ParseInt(generation, 10, 64)
	m.loginAt = m.now
}

// loginCompleted handles codex's notification that a login has completed. Turns
// work even if codex could not ask its provider about the account.
func (m *machine) loginCompleted(p json.RawMessage) {
	m.loggedIn = true
	var n struct {
		Success bool   `json:"success"`
		Error   string `json:"error"`
	}
	if json.Unmarshal(p, &n) == nil && !n.Success {
		m.warn("codex could not look up the account of its access token: " + n.Error)
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
