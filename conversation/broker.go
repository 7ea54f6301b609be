package conversation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"fairlead.dev/fairlead/internal/protocol"
)

// A Token is a short-lived access token for codex on a host without a credential. codex
// keeps it in memory only, so it is lost with the process.
type Token struct {
	access        *string // a pointer, because fmt prints unexported fields without Format
	account, plan string
	generation    int64
}

// NewToken makes a token; account and plan go to codex beside it.
func NewToken(access, account, plan string, generation int64) Token {
	return Token{&access, account, plan, generation}
}

// Format prints [secret], whatever the verb.
func (Token) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "[secret]") }

// MarshalJSON fails: only the message to codex may contain a token.
func (Token) MarshalJSON() ([]byte, error) {
	return nil, errors.New("conversation.Token must not be encoded as JSON")
}

// A TokenAsk says why and for which account a token is wanted.
type TokenAsk struct {
	Reason  string // codex's word; empty for the login of a new process
	Account string
	// Have is the generation of the token that no longer works; 0 if codex has none.
	Have int64
}

// A Broker returns a newer token than codex has. It is called from a goroutine of the pump
// and must return when ctx ends. An error other than a *TokenError ends the pump, which is
// then run again.
type Broker func(ctx context.Context, ask TokenAsk) (Token, error)

// A TokenError says that no token is available. codex repeats the code in the error of the
// turn that fails.
type TokenError struct {
	Code int // one of the Token… codes
	Err  error
}

func (e *TokenError) Error() string { return e.Err.Error() }
func (e *TokenError) Unwrap() error { return e.Err }

// The codes of token errors.
const (
	TokenDead     = -32041 // the login is over: somebody has to log in again
	TokenTaken    = -32042 // the session no longer holds the login
	TokenLater    = -32043 // it could not be refreshed now
	TokenDoubtful = -32044 // it is not known whether the login is good
)

var tokenProblems = map[int][2]string{
	TokenDead: {"the login is over: the provider does not refresh it any more",
		"log in anew and import or capture the seed again (`ctl seed show` says more), then send the message again"},
	TokenTaken: {"the session does not hold its seed any more",
		"see who holds it with `ctl seed show`, then send the message again"},
	TokenDoubtful: {"it is not known whether the login still works",
		"`ctl seed show` says why, and what to do; then send the message again"},
	TokenLater: {"the login could not be refreshed in time",
		"see `ctl seed show` and whether the token endpoint can be reached from the workers, then send the message again"},
}

// tokenRefusedText precedes the code of our refusal.
const tokenRefusedText = "auth refresh request failed: code="

// tokenLateText is codex's error if it gets no answer for 10 s.
const tokenLateText = "auth refresh request timed out"

func tokenProblem(message string) *protocol.Problem {
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
	return &protocol.Problem{Kind: "auth", Message: "codex's access token no longer works, and " + words[0] + " (" + message + ")", Hint: words[1], Passing: code == TokenLater}
}
