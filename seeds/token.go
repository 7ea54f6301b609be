package seeds

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// A Verdict is what is known of a credential.
type Verdict string

const (
	// VerdictAlive means that the credential works.
	VerdictAlive Verdict = "alive"
	// VerdictDead means that the issuer refused the credential for good.
	VerdictDead Verdict = "dead"
	// VerdictSuspect means refused, but not for good by the issuer.
	VerdictSuspect Verdict = "suspect"
	// VerdictUnknown means that nobody gave a useful answer. Ask again.
	VerdictUnknown Verdict = "unknown"
	// VerdictLost means that a refresh token was sent and no answer came. The token may be
	// used up; if it is used again, the issuer may revoke the login.
	VerdictLost Verdict = "lost"
	// VerdictFresh means valid by the credential's own claims. Nobody was asked.
	VerdictFresh Verdict = "fresh"
)

// An Answer contains no secret.
type Answer struct {
	Verdict    Verdict
	Reason     string        // a clause; empty for alive
	Hint       string        // what a person can do
	RetryAfter time.Duration // zero if not told
}

// An Issuer asks about logins. The zero value is codex's own issuer.
type Issuer struct {
	// TokenURL gets the refresh tokens. Empty means, as for codex, the issuer that the
	// login names, or codex's own.
	TokenURL string
	// URL gets other requests; empty means codex's own issuer.
	URL string
	// UsageURL tells of the usage of ChatGPT logins; empty means codex's own.
	UsageURL string
	// Client makes the requests if set. It must not follow redirects.
	Client *http.Client
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

const (
	ownIssuer   = "https://auth.openai.com"
	ownClientID = "app_EMoamEEZ73f0CkXaXp7hrann"

	// askTimeout is long, because an answer that comes later is lost.
	askTimeout = 30 * time.Second
	maxAnswer  = 1 << 20
)

func (i Issuer) now() time.Time {
	if i.Now != nil {
		return i.Now()
	}
	return time.Now()
}

// client follows no redirect, so that a secret goes to one address only. It keeps no
// connections, because the transport repeats a request if a kept one is dead.
func (i Issuer) client() *http.Client {
	if i.Client != nil {
		return i.Client
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DisableKeepAlives = true
	return &http.Client{Transport: t, Timeout: askTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Refresh uses a login's refresh token a single time. With VerdictAlive the token of b is
// used up and the returned bundle has the new login: save it before anything else. Other
// verdicts return no bundle.
func (i Issuer) Refresh(ctx context.Context, b *Bundle) (Answer, *Bundle) {
	if b.Kind() != KindChatGPT {
		return Answer{Verdict: VerdictUnknown, Reason: fmt.Sprintf("a seed of kind %s has nothing to refresh", b.Kind())}, nil
	}
	var a authJSON
	if err := json.Unmarshal(b.Auth(), &a); err != nil || a.Tokens == nil {
		return Answer{Verdict: VerdictUnknown, Reason: "its auth.json cannot be read"}, nil
	}
	at, client, err := i.endpoint(b.Auth())
	if err != nil {
		return Answer{Verdict: VerdictUnknown, Reason: err.Error(), Hint: "set seeds.token_endpoint in the config of the workers"}, nil
	}
	body, err := json.Marshal(map[string]string{"client_id": client, "grant_type": "refresh_token", "refresh_token": a.Tokens.Refresh})
	if err != nil {
		panic(err)
	}
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, bytes.NewReader(body))
	if err != nil {
		return Answer{Verdict: VerdictUnknown, Reason: "the token endpoint is no URL"}, nil
	}
	req.GetBody = nil // the transport must not send it a second time
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "fairlead")
	resp, err := i.client().Do(req)
	if err != nil {
		return unanswered(sent.Load(), hostOf(at), err), nil
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode != http.StatusOK {
		return refusal(resp, data, hostOf(at)), nil
	}
	if cut := err; cut != nil && tokensIn(data)["refresh_token"] == "" {
		return unanswered(true, hostOf(at), cut), nil
	}
	next, err := i.renewed(b, data)
	if err != nil {
		return lost(fmt.Sprintf("the answer of %s to the refresh has no usable tokens (%v)", hostOf(at), err)), nil
	}
	return Answer{Verdict: VerdictAlive}, next
}

func (i Issuer) endpoint(auth []byte) (at, client string, err error) {
	var a struct {
		Tokens struct {
			From struct {
				Issuer string `json:"issuer"`
				Client string `json:"client_id"`
			} `json:"oauth_provenance"`
		} `json:"tokens"`
	}
	_ = json.Unmarshal(auth, &a)
	at, client = i.TokenURL, ownClientID
	if a.Tokens.From.Client != "" {
		client = a.Tokens.From.Client
	}
	switch from := strings.TrimRight(a.Tokens.From.Issuer, "/"); {
	case at != "":
	case from != "":
		at = from + "/oauth/token"
	default:
		at = ownIssuer + "/oauth/token"
	}
	// Anybody may have written the file, so its address must be safe for a secret.
	u, err := url.Parse(at)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname())) {
		return "", "", errors.New("the login names a token endpoint that is not safe for a refresh token: it must be an https URL without a user name")
	}
	return at, client, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func unanswered(sent bool, host string, err error) Answer {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	if sent {
		return lost(fmt.Sprintf("the refresh was sent to %s and its answer never came (%v)", host, err))
	}
	return Answer{Verdict: VerdictUnknown, Reason: fmt.Sprintf("%s cannot be reached (%v)", host, err),
		Hint: "check that the workers reach it; nothing was sent"}
}

func lost(why string) Answer {
	return Answer{Verdict: VerdictLost, Reason: why + ": its refresh token may be spent",
		Hint: "`ctl seed verify NAME --force` tries it once more, which burns the login if it is spent; or log in anew and import it"}
}

// deadCodes are final refusals: OAuth's code and those that codex tells apart.
var deadCodes = map[string]string{
	"invalid_grant":             "its refresh token is not valid",
	"refresh_token_expired":     "its refresh token has expired",
	"refresh_token_reused":      "its refresh token was used before: somebody else has the same login",
	"refresh_token_invalidated": "its refresh token was revoked",
}

func refusal(resp *http.Response, body []byte, host string) Answer {
	code := errorCode(body)
	said := fmt.Sprintf("%s answered %d", host, resp.StatusCode)
	if code != "" {
		said += " " + code
	}
	status := resp.StatusCode
	if why, dead := deadCodes[code]; dead && (status == http.StatusBadRequest || status == http.StatusUnauthorized) {
		return Answer{Verdict: VerdictDead, Reason: fmt.Sprintf("%s (%s)", why, said), Hint: "log in anew and import it"}
	}
	switch {
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		return Answer{Verdict: VerdictUnknown, Reason: said + ": too busy to say", RetryAfter: retryAfter(resp)}
	case status == http.StatusInternalServerError, status == http.StatusNotImplemented:
		return Answer{Verdict: VerdictUnknown, Reason: said, Hint: "it is the issuer that fails, not the login: try again later"}
	case status >= 500, status >= 200 && status < 300, status == http.StatusRequestTimeout, status == statusClientClosed:
		// A proxy may have answered (520 to 527 are Cloudflare's) after the issuer used the
		// token.
		return lost(said)
	}
	return Answer{Verdict: VerdictUnknown, Reason: said + ", which says nothing of the login",
		Hint: "check seeds.token_endpoint in the config of the workers"}
}

const statusClientClosed = 499

// retryAfter ignores dates.
func retryAfter(resp *http.Response) time.Duration {
	n, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil || n < 0 {
		return 0
	}
	return min(time.Duration(n)*time.Second, 24*time.Hour)
}

var wordLike = regexp.MustCompile(`^[a-z][a-z0-9_.-]{0,60}$`)

// errorCode drops a text that does not look like a code, because it could contain anything.
func errorCode(body []byte) string {
	var top struct {
		Error json.RawMessage `json:"error"`
		Code  string          `json:"code"`
	}
	if json.Unmarshal(body, &top) != nil {
		return ""
	}
	var inner struct {
		Code string `json:"code"`
	}
	code := ""
	if json.Unmarshal(top.Error, &code) != nil && json.Unmarshal(top.Error, &inner) == nil {
		code = inner.Code
	}
	if code == "" {
		code = top.Code
	}
	if code = strings.ToLower(code); !wordLike.MatchString(code) {
		return ""
	}
	return code
}

func hostOf(at string) string {
	u, err := url.Parse(at)
	if err != nil {
		return "the token endpoint"
	}
	return u.Host
}

// renewed changes only the tokens and last_refresh of auth.json.
func (i Issuer) renewed(b *Bundle, answer []byte) (*Bundle, error) {
	got := tokensIn(answer)
	if got["access_token"] == "" && got["refresh_token"] == "" {
		return nil, errors.New("neither a valid access_token nor a valid refresh_token")
	}
	var file, tokens map[string]json.RawMessage
	if err := json.Unmarshal(b.Auth(), &file); err != nil {
		return nil, malformedAuth(err)
	}
	if err := json.Unmarshal(file["tokens"], &tokens); err != nil {
		return nil, malformedAuth(err)
	}
	for key, value := range got {
		tokens[key] = text(value)
	}
	file["last_refresh"] = text(i.now().UTC().Format(time.RFC3339Nano))
	var err error
	if file["tokens"], err = json.Marshal(tokens); err != nil {
		return nil, errors.New("not JSON")
	}
	auth, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return nil, errors.New("not JSON")
	}
	return b.WithAuth(auth)
}

// tokensIn returns the usable tokens of an answer, complete or cut. Each is optional, as
// for codex, and a damaged one is left out: the refresh token alone makes the login, and
// must not be lost because of the others. If the refresh token is damaged or cut off,
// nothing is usable, because the old one is no longer valid.
func tokensIn(answer []byte) map[string]string {
	got := map[string]string{}
	dec := json.NewDecoder(bytes.NewReader(answer))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	for dec.More() {
		key, err := dec.Token()
		var value any
		if err != nil || dec.Decode(&value) != nil {
			break
		}
		name, _ := key.(string)
		given, isText := value.(string)
		if value == nil || isText && given == "" {
			continue
		}
		usable := isText && token(name, given) == nil
		switch name {
		case "id_token":
			usable = usable && checkIDToken(given) == nil
		case "refresh_token":
			if !usable {
				return nil
			}
		case "access_token":
		default:
			continue
		}
		if usable {
			got[name] = given
		}
	}
	if end, err := dec.Token(); (err != nil || end != json.Delim('}')) && got["refresh_token"] == "" {
		return nil // a new refresh token may be missing
	}
	return got
}

func text(s string) json.RawMessage {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return data
}
