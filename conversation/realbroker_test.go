package conversation

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
)

// accessToken returns a made-up JWT of the form that codex expects: codex reads its claims
// and does not check the signature. Without a user id, codex takes the next token for the
// token of another account (measured).
func accessToken(generation int64) string {
	claims := `{"exp":4102444800,"https://api.openai.com/auth":{"chatgpt_account_id":"acct-1","chatgpt_plan_type":"pro","chatgpt_user_id":"user-1"}}`
	mark := fmt.Sprintf("made-up-signature-%d", generation)
	return strings.Join([]string{
		base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)),
		base64.RawURLEncoding.EncodeToString([]byte(claims)),
		base64.RawURLEncoding.EncodeToString([]byte(mark)),
	}, ".")
}

func digestOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// A dealer is a broker whose generation rises by one whenever codex's token is no
// longer accepted.
type dealer struct {
	mu   sync.Mutex
	now  int64
	dead bool
	asks []TokenAsk
	all  []string // the tokens that it gave
}

func (d *dealer) token(_ context.Context, ask TokenAsk) (Token, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asks = append(d.asks, ask)
	switch {
	case d.dead && ask.Have > 0:
		return Token{}, &TokenError{TokenDead, errors.New("invalid_grant")}
	case ask.Have >= d.now:
		d.now++
	}
	access := accessToken(d.now)
	d.all = append(d.all, access)
	return NewToken(access, "acct-1", "pro", d.now), nil
}

// brokered returns a talk with a codex whose home has no credential.
func (c *codex) brokered(t *testing.T, s *scriptedmodel.Server) (*talk, *dealer) {
	k := c.talk(t, s)
	if err := os.WriteFile(filepath.Join(k.h.dir, "config.toml"), []byte(scriptedmodel.LoginConfigTOML(s.BaseURL())), 0o600); err != nil {
		t.Fatal(err)
	}
	k.p.kill() // the process may have read the other config
	k.p = k.h.start()
	d := &dealer{now: 1}
	k.opt.Broker = d.token
	return k, d
}

// nowhere fails the test if a token is in a file of codex, in its environment or arguments,
// or in its output.
func (k *talk) nowhere(tokens ...string) {
	k.t.Helper()
	look := func(where string, data []byte) {
		for _, token := range tokens {
			if sig := token[strings.LastIndexByte(token, '.')+1:]; bytes.Contains(data, []byte(sig)) {
				k.t.Errorf("a token is in %s", where)
			}
		}
	}
	files := 0
	err := filepath.WalkDir(filepath.Dir(k.h.dir), func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil // the path does not exist any more, or is not a file
		}
		data, err := os.ReadFile(name)
		if err == nil {
			files++
			if wire.Has(k.h.codex, wire.TokensUnlogged) || !strings.HasPrefix(filepath.Base(name), "logs_") {
				look(name, data)
			}
		}
		return nil
	})
	if err != nil || files < 5 {
		k.t.Errorf("looked at %d files: %v", files, err)
	}
	for _, name := range []string{"environ", "cmdline"} {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", k.p.cmd.Process.Pid, name))
		if err != nil || len(data) == 0 {
			k.t.Errorf("%s: %v", name, err)
		}
		look(name, data)
	}
	look("the journal", k.p.bytes())
	all, err := json.Marshal([]any{k.state, k.sink.entries, k.sink.deltas})
	if err != nil {
		k.t.Fatal(err)
	}
	look("what is on record", all)
}

func tokensSeen(s *scriptedmodel.Server) (seen []string) {
	for _, r := range s.Requests() {
		if strings.HasSuffix(r.Path, "/responses") {
			seen = append(seen, r.TokenSHA256)
		}
	}
	return seen
}

func refusedTokenIsRefreshedWithinTheTurnAndWrittenNowhere(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, `
rules:
  - when: {turn: 1}
    steps:
      - shell: echo begun
      - - fail: {kind: unauthorized}
        - say: all is well
  - reply: and again
`)
	k, d := c.brokered(t, s)
	r := k.pump(TurnEnded, turn(1, "m-1", "go"))
	if r.Turn.Status != "completed" || r.Turn.FinalText != "all is well" || !r.Turn.Effects {
		t.Fatalf("turn %+v, problem %+v", r.Turn, r.Turn.Problem)
	}
	if r.State.Login != 2 || len(r.State.TokenAsks) != 0 {
		t.Errorf("state %+v", r.State)
	}
	first, second := digestOf(d.all[0]), digestOf(d.all[1])
	if got := tokensSeen(s); !slices.Equal(got, []string{first, first, second}) {
		t.Errorf("the model saw %q, want %q twice and %q", got, first, second)
	}
	if !c.has(wire.TokensUnlogged) {
		c.note = "in its log database: refused by the worker"
	}
	k.nowhere(d.all...)

	// The token is lost with the process. The next process is logged in before it
	// resumes the thread.
	k.restart()
	r = k.pump(TurnEnded, turn(2, "m-2", "again"))
	if r.Turn.Status != "completed" || r.State.Login != 2 {
		t.Errorf("turn %+v, state %+v", r.Turn, r.State)
	}
	sent := string(k.p.sent.bytes())
	if at := strings.Index(sent, methodLogin); at < 0 || at > strings.Index(sent, wire.MethodResume) {
		t.Errorf("not logged in before the thread was resumed: %d, %d", at, strings.Index(sent, wire.MethodResume))
	}
	if got := tokensSeen(s); got[len(got)-1] != second {
		t.Errorf("the model saw %s, want %s", got[len(got)-1], second)
	}
	k.nowhere(d.all...)
}

func deadLoginFailsTheTurnWithWhatToDo(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, `
rules:
  - steps: [[{fail: {kind: unauthorized, times: -1}}, {say: never}]]
`)
	k, d := c.brokered(t, s)
	d.dead = true
	r := k.pump(TurnEnded, turn(1, "m-1", "go"))
	if p := r.Turn.Problem; r.Turn.Status != "failed" || p == nil || p.Kind != "auth" || p.Hint != tokenProblems[TokenDead][1] || r.Turn.Effects {
		t.Errorf("turn %+v, problem %+v", r.Turn, r.Turn.Problem)
	}
}

func tokenThatIsRefusedAnewEndsTheTurnAsAuth(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, `
rules:
  - steps: [[{fail: {kind: unauthorized, times: -1}}, {say: never}]]
`)
	k, _ := c.brokered(t, s)
	r := k.pump(TurnEnded, turn(1, "m-1", "go"))
	if p := r.Turn.Problem; r.Turn.Status != "failed" || p == nil || p.Kind != "auth" {
		t.Errorf("turn %+v, problem %+v", r.Turn, r.Turn.Problem)
	}
}
