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

// A Verdict is what is known of a credential after its issuer was asked.
type Verdict string

// The verdicts.
const (
	// VerdictAlive means that the credential works.
	VerdictAlive Verdict = "alive"
	// VerdictDead means that the issuer said that the credential will never work again.
	VerdictDead Verdict = "dead"
	// VerdictSuspect means that the credential was refused, but not with a final answer
	// of its issuer.
	VerdictSuspect Verdict = "suspect"
	// VerdictUnknown means that nobody could be asked, or that there was no useful
	// answer. The caller should ask again.
	VerdictUnknown Verdict = "unknown"
	// VerdictLost means that a refresh token was sent and the answer is unknown. The
	// token may be used up, and the issuer may revoke the login if it is used again.
	VerdictLost Verdict = "lost"
	// VerdictFresh means that nobody was asked, and that the credential is valid for
	// some time by its own claims.
	VerdictFresh Verdict = "fresh"
)

// An Answer is a verdict with a reason. It contains no secret.
type Answer struct {
	Verdict    Verdict
	Reason     string        // a clause; empty for alive
	Hint       string        // what a person can do
	RetryAfter time.Duration // when to ask again, if the answer said so
}

// An Issuer answers questions about logins. The zero value is codex's own issuer.
type Issuer struct {
	// TokenURL is the URL to which refresh tokens are sent. If it is empty, they go to
	// the issuer that the login names, or to codex's own issuer if it names none. codex
	// does the same.
	TokenURL string
	// URL is the issuer's address for requests other than a refresh; empty means
	// codex's own.
	URL string
	// Client, if set, makes the requests. It must not follow redirects.
	Client *http.Client
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

const (
	ownIssuer   = "https://auth.openai.com"
	ownClientID = "app_EMoamEEZ73f0CkXaXp7hrann"

	// askTimeout is the time limit for one request. It is long, because an answer that
	// comes later is lost.
	askTimeout = 30 * time.Second
	maxAnswer  = 1 << 20
)

func (i Issuer) now() time.Time {
	if i.Now != nil {
		return i.Now()
	}
	return time.Now()
}

// client returns a client that sends a secret to one address only: it takes a redirect
// as the answer. It does not keep connections open, because the transport repeats a
// request if a kept connection turns out to be dead.
func (i Issuer) client() *http.Client {
	if i.Client != nil {
		return i.Client
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DisableKeepAlives = true
	return &http.Client{Transport: t, Timeout: askTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Refresh uses a login's refresh token a single time. With VerdictAlive the returned
// bundle has the new login, and the refresh token of b is used up. Save the new bundle
// before anything else. Other verdicts return no bundle.
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
		panic(err) // cannot happen for texts
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
		return lost(fmt.Sprintf("%s answered the refresh with what is no login (%v)", hostOf(at), err)), nil
	}
	return Answer{Verdict: VerdictAlive}, next
}

// endpoint returns the URL and the client id for refreshing a login. They are those
// that codex uses.
func (i Issuer) endpoint(auth []byte) (at, client string, err error) {
	var a struct {
		Tokens struct {
			From struct {
				Issuer string `json:"issuer"`
				Client string `json:"client_id"`
			} `json:"oauth_provenance"`
		} `json:"tokens"`
	}
	_ = json.Unmarshal(auth, &a) // the file was parsed before
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
	// The login file may come from anybody, so the address that it names must be safe
	// for a secret.
	u, err := url.Parse(at)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname())) {
		return "", "", errors.New("the login names an issuer to which no secret may be sent")
	}
	return at, client, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// unanswered returns the Answer for a request without a response.
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

// deadCodes are an issuer's final refusals: OAuth's own code and those that codex
// distinguishes.
var deadCodes = map[string]string{
	"invalid_grant":             "its refresh token is not valid",
	"refresh_token_expired":     "its refresh token has expired",
	"refresh_token_reused":      "its refresh token was used before: somebody else has the same login",
	"refresh_token_invalidated": "its refresh token was revoked",
}

// refusal returns the Answer for a response without tokens.
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
		// This answer may not be from the issuer but from a proxy in between (520 to 527
		// are Cloudflare's). The issuer may have used the token.
		return lost(said)
	}
	return Answer{Verdict: VerdictUnknown, Reason: said + ", which says nothing of the login",
		Hint: "check seeds.token_endpoint in the config of the workers"}
}

// statusClientClosed is a proxy's status when it lost its client.
const statusClientClosed = 499

// retryAfter reads the header Retry-After in seconds. It ignores dates.
func retryAfter(resp *http.Response) time.Duration {
	n, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil || n < 0 {
		return 0
	}
	return min(time.Duration(n)*time.Second, 24*time.Hour)
}

var wordLike = regexp.MustCompile(`^[a-z][a-z0-9_.-]{0,60}$`)

// errorCode reads {"error":{"code":…}}, {"error":…} and {"code":…}. A text that does
// not look like a code is dropped, because it could contain anything.
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

// hostOf returns the name of an endpoint for messages.
func hostOf(at string) string {
	u, err := url.Parse(at)
	if err != nil {
		return "the token endpoint"
	}
	return u.Host
}

// renewed returns the bundle with the tokens in the answer to a refresh. Everything
// else in auth.json stays.
func (i Issuer) renewed(b *Bundle, answer []byte) (*Bundle, error) {
	got := tokensIn(answer)
	if got["access_token"] == "" && got["refresh_token"] == "" {
		return nil, errors.New("no token that could be used")
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

// tokensIn returns the usable tokens of an answer, complete or cut. All three are
// optional, as for codex, and a damaged one is left out. The new refresh token alone
// makes the login, and must not be lost because of the others. If the refresh token
// itself is damaged or cut off, nothing is usable, because the old one is no longer
// valid.
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
		return nil // a new refresh token may have been in the part that is missing
	}
	return got
}

func text(s string) json.RawMessage {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err) // cannot happen for a text
	}
	return data
}
