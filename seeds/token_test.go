package seeds

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/lab/scriptedauth"
)

// loginBundle returns a seed whose login came from an issuer.
func loginBundle(t *testing.T, l scriptedauth.Login) *Bundle {
	t.Helper()
	b, err := newBundle([]file{{path: authFile, data: l.AuthJSON()}, {path: "AGENTS.md", data: []byte("be kind\n")}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestARefreshUsesTheTokenOnceAndKeepsAllElse(t *testing.T) {
	s := scriptedauth.Serve(t)
	l := s.Login(scriptedauth.Account{})
	b := loginBundle(t, l)
	answer, next := Issuer{}.Refresh(t.Context(), b)
	if answer.Verdict != VerdictAlive || next == nil {
		t.Fatalf("%+v", answer)
	}
	var was, is struct {
		Mode   string         `json:"auth_mode"`
		Tokens map[string]any `json:"tokens"`
		At     time.Time      `json:"last_refresh"`
	}
	for data, v := range map[*Bundle]any{b: &was, next: &is} {
		if err := json.Unmarshal(data.Auth(), v); err != nil {
			t.Fatal(err)
		}
	}
	newest := s.Newest(l)
	if is.Tokens["refresh_token"] != newest.Refresh || is.Tokens["access_token"] != newest.Access || is.Tokens["id_token"] != newest.ID {
		t.Error("the new login does not hold the newest tokens")
	}
	if is.Mode != "chatgpt" || fmt.Sprint(is.Tokens["oauth_provenance"]) != fmt.Sprint(was.Tokens["oauth_provenance"]) || !is.At.After(was.At) {
		t.Errorf("what codex keeps beside the tokens has changed: %v, %v", is.Tokens["oauth_provenance"], is.At)
	}
	if string(next.File("AGENTS.md")) != "be kind\n" || s.Uses(l.Refresh) != 1 {
		t.Errorf("AGENTS.md %q, %d uses", next.File("AGENTS.md"), s.Uses(l.Refresh))
	}
	if r, err := CompareAuth(b.Auth(), next.Auth()); r != RotationLater {
		t.Errorf("beside the old one the new login is %s, %v", r, err)
	}
}

// Refresh decides the meaning of an answer for all callers.
func TestOnlyAnIssuersLastWordKillsAndOnlyASentTokenIsLost(t *testing.T) {
	for kind, want := range map[string]Verdict{
		"rate_limited": VerdictUnknown, "server_error": VerdictUnknown, "unavailable": VerdictUnknown, "unauthorized": VerdictUnknown,
		"garbage": VerdictLost, "html": VerdictLost, "drop": VerdictLost, "lost": VerdictLost, "hang": VerdictLost, "held": VerdictLost,
		"invalid_grant": VerdictDead, "expired": VerdictDead, "invalidated": VerdictDead, "slow": VerdictAlive,
	} {
		t.Run(kind, func(t *testing.T) {
			s := scriptedauth.Serve(t)
			l := s.Login(scriptedauth.Account{Mark: "marked-token"})
			s.Fail(scriptedauth.Fault{Kind: kind, RetryAfter: "7", Delay: time.Millisecond})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				if s.AwaitHolding(ctx, 1) == nil {
					cancel() // the request has waited long enough
				}
			}()
			answer, next := Issuer{}.Refresh(ctx, loginBundle(t, l))
			if answer.Verdict != want || (next != nil) != (want == VerdictAlive) {
				t.Errorf("%+v", answer)
			}
			if kind == "rate_limited" && answer.RetryAfter != 7*time.Second {
				t.Errorf("again after %s", answer.RetryAfter)
			}
			if want != VerdictAlive && (answer.Reason == "" || strings.Contains(answer.Reason+answer.Hint, "marked-token")) {
				t.Errorf("it says %q (%s)", answer.Reason, answer.Hint)
			}
			if n := len(s.Refreshes()); n != 1 {
				t.Errorf("%d requests for one refresh", n)
			}
		})
	}
}

func TestAnEndpointThatIsNotThereSpendsNothing(t *testing.T) {
	s := scriptedauth.Serve(t)
	l := s.Login(scriptedauth.Account{NoProvenance: true})
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	answer, _ := Issuer{TokenURL: gone.URL}.Refresh(t.Context(), loginBundle(t, l))
	if answer.Verdict != VerdictUnknown || !strings.Contains(answer.Hint, "nothing was sent") {
		t.Errorf("%+v", answer)
	}
}

func TestARefreshTokenFollowsNoRedirectAndLeavesNoPlainWire(t *testing.T) {
	s := scriptedauth.Serve(t)
	l := s.Login(scriptedauth.Account{})
	away := httptest.NewServer(http.RedirectHandler(s.TokenEndpoint(), http.StatusTemporaryRedirect))
	defer away.Close()
	if answer, _ := (Issuer{TokenURL: away.URL}).Refresh(t.Context(), loginBundle(t, l)); answer.Verdict != VerdictUnknown {
		t.Errorf("a redirect: %+v", answer)
	}
	l.Issuer = "http://issuer.example"
	answer, _ := Issuer{}.Refresh(t.Context(), loginBundle(t, l))
	if answer.Verdict != VerdictUnknown || !strings.Contains(answer.Reason, "not safe for a refresh token") {
		t.Errorf("a login from a plain address: %+v", answer)
	}
	if s.Uses(l.Refresh) != 0 {
		t.Error("the token was used")
	}
}

func TestFreshnessIsTheLoginsOwnWordAndNoMore(t *testing.T) {
	s := scriptedauth.Serve(t)
	now := time.Now()
	b := loginBundle(t, s.Login(scriptedauth.Account{}))
	for at, want := range map[time.Duration]Verdict{0: VerdictFresh, 7 * 24 * time.Hour: VerdictFresh, 9 * 24 * time.Hour: VerdictUnknown, 11 * 24 * time.Hour: VerdictUnknown} {
		answer, until := Issuer{Now: func() time.Time { return now.Add(at) }}.Fresh(b)
		if answer.Verdict != want || until.Before(now) {
			t.Errorf("after %s: %+v until %s", at, answer, until)
		}
	}
	// For a token with a short life, a quarter of that life must be left.
	b = loginBundle(t, s.Login(scriptedauth.Account{AccessTTL: time.Hour}))
	if answer, _ := (Issuer{}).Fresh(b); answer.Verdict != VerdictFresh || !strings.Contains(answer.Reason, "not asked") {
		t.Errorf("%+v", answer)
	}
	if n := len(s.Requests()); n != 0 {
		t.Errorf("%d requests", n)
	}
}

const (
	keyAuth    = `{"auth_mode":"apikey","OPENAI_API_KEY":"sk-marked-0123456789"}`
	patAuth    = `{"auth_mode":"personalAccessToken","personal_access_token":"at-marked-0123456789"}`
	ofProvider = "model_provider = \"p\"\n[model_providers.p]\nname = \"p\"\n"
)

func keyBundle(t *testing.T, auth, config string) *Bundle {
	t.Helper()
	var files []file
	for path, text := range map[string]string{authFile: auth, configFile: config} {
		if text != "" {
			files = append(files, file{path: path, data: []byte(text)})
		}
	}
	b, err := newBundle(files, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAKeyIsAskedForWithoutAModelCall(t *testing.T) {
	status := http.StatusOK
	var asked []string
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Host+" "+r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization")+" "+r.Header.Get("X-Team")+r.URL.Query().Get("v"))
		w.WriteHeader(status)
	}))
	defer s.Close()
	issuer := Issuer{URL: "https://issuer.example.com", Client: s.Client()} // this client connects to s for all hosts of example.com
	const at, bearer = "base_url = \"https://llm.example.com/v1\"\n", "experimental_bearer_token = \"key-of-the-provider\"\n"
	for name, seed := range map[string]struct{ auth, conf, want string }{
		"a key of codex's own":      {keyAuth, "openai_base_url = \"https://api.example.com/v1\"\n", "api.example.com GET /v1/models Bearer sk-marked-0123456789 "},
		"a provider that wants it":  {keyAuth, ofProvider + at + "requires_openai_auth = true\n", "llm.example.com GET /v1/models Bearer sk-marked-0123456789 "},
		"a provider with its own":   {keyAuth, ofProvider + at + bearer, "llm.example.com GET /v1/models Bearer key-of-the-provider "},
		"a provider's":              {"", ofProvider + at + bearer + "http_headers = {X-Team = \"a\"}\nquery_params = {v = \"1\"}\n", "llm.example.com GET /v1/models Bearer key-of-the-provider a1"},
		"a personal access token's": {patAuth, "", "issuer.example.com GET /api/accounts/v1/user-auth-credential/whoami Bearer at-marked-0123456789 "},
	} {
		b := keyBundle(t, seed.auth, seed.conf)
		for code, want := range map[int]Verdict{200: VerdictAlive, 401: VerdictSuspect, 403: VerdictUnknown, 404: VerdictUnknown, 429: VerdictUnknown, 500: VerdictUnknown} {
			status, asked = code, nil
			answer := issuer.Ask(t.Context(), b)
			if answer.Verdict != want || strings.Contains(answer.Reason+answer.Hint, "marked") {
				t.Errorf("%s, %d: %+v", name, code, answer)
			}
			if len(asked) != 1 || asked[0] != seed.want {
				t.Errorf("%s asked %q, want %q", name, asked, seed.want)
			}
		}
	}
	// Without a bearer token, a refusal says nothing about the seed.
	status, asked = http.StatusUnauthorized, nil
	answer := issuer.Ask(t.Context(), keyBundle(t, "", ofProvider+at+"http_headers = {X-Team = \"a\"}\n"))
	if answer.Verdict != VerdictUnknown || len(asked) != 1 {
		t.Errorf("%+v, asked %q", answer, asked)
	}
}

// A key is not sent to a server to which codex on the host would not send it.
func TestWhomOnlyCodexMayAskNobodyAsks(t *testing.T) {
	asked := 0
	count := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		w.WriteHeader(http.StatusUnauthorized)
	})
	plain, tls := httptest.NewServer(count), httptest.NewTLSServer(count)
	defer plain.Close()
	defer tls.Close()
	const at, bearer = "base_url = \"https://llm.example.com/v1\"\n", "experimental_bearer_token = \"key-of-the-provider\"\n"
	for name, c := range map[string]struct{ auth, conf, says string }{
		"a key and a stranger":      {keyAuth, ofProvider + at, "the seed has no key for model provider \"p\""},
		"a key and a plain wire":    {keyAuth, fmt.Sprintf("openai_base_url = %q\n", plain.URL), "a worker cannot check this key"},
		"no key":                    {"", ofProvider + at, "the seed has no key"},
		"a command's":               {"", ofProvider + at + "auth = {command = \"print-token\"}\n", "takes its key from a command"},
		"an environment's headers":  {"", ofProvider + at + bearer + "env_http_headers = {X-Key = \"KEY\"}\n", "from an environment"},
		"the host itself":           {"", ofProvider + fmt.Sprintf("base_url = %q\n", plain.URL) + bearer, "a worker cannot check this key"},
		"the host itself, secretly": {"", ofProvider + fmt.Sprintf("base_url = %q\n", tls.URL) + bearer, "a worker cannot check this key"},
		"a plain wire":              {"", ofProvider + "base_url = \"http://llm.example.com/v1\"\n" + bearer, "a worker cannot check this key"},
		"the host's network":        {"", ofProvider + "base_url = \"https://10.1.2.3/v1\"\n" + bearer, "a worker cannot check this key"},
		"a name of that network":    {"", ofProvider + "base_url = \"https://llm/v1\"\n" + bearer, "a worker cannot check this key"},
		"a profile":                 {keyAuth, "profile = \"x\"\n", "profile \"x\""},
		"one codex brings":          {"", "model_provider = \"ollama\"\n", "the seed has no key"},
	} {
		answer := Issuer{Client: tls.Client()}.Ask(t.Context(), keyBundle(t, c.auth, c.conf))
		if answer.Verdict != VerdictUnknown || !strings.Contains(answer.Reason, c.says) || strings.Contains(answer.Reason+answer.Hint, "marked") || strings.Contains(answer.Reason, "key-of-the-provider") {
			t.Errorf("%s: %+v", name, answer)
		}
	}
	if asked != 0 {
		t.Errorf("%d requests", asked)
	}
}
