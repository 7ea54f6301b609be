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

// A Verdict is what is known of a credential after somebody was asked.
type Verdict string

// The verdicts.
const (
	// VerdictAlive: it did what a credential does.
	VerdictAlive Verdict = "alive"
	// VerdictDead: its issuer says that it will never be good again.
	VerdictDead Verdict = "dead"
	// VerdictSuspect: something refused it that is not its issuer's last word.
	VerdictSuspect Verdict = "suspect"
	// VerdictUnknown: nobody could be asked, or nothing was said; ask again.
	VerdictUnknown Verdict = "unknown"
	// VerdictLost: a refresh token was sent and no answer is known. It may be
	// spent, and its use again may burn the login.
	VerdictLost Verdict = "lost"
	// VerdictFresh: nobody was asked; by its own words it is good for a while.
	VerdictFresh Verdict = "fresh"
)

// An Answer is a verdict with its reason. It holds no secret.
type Answer struct {
	Verdict    Verdict
	Reason     string        // a clause that says why, none for alive
	Hint       string        // what a person can do
	RetryAfter time.Duration // when it is worth to ask again, if that was said
}

// An Issuer is asked about logins. The zero value asks codex's own.
type Issuer struct {
	// TokenURL is where refresh tokens are used; empty is where the login
	// says that it came from, as codex does it.
	TokenURL string
	// URL is the issuer itself, for what is no refresh; empty is codex's own.
	URL string
	// Client, if set, makes the requests. It follows no redirect.
	Client *http.Client
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

const (
	ownIssuer   = "https://auth.openai.com"
	ownClientID = "app_EMoamEEZ73f0CkXaXp7hrann"

	// askTimeout bounds one question. To give up early is to lose answers.
	askTimeout = 30 * time.Second
	maxAnswer  = 1 << 20
)

func (i Issuer) now() time.Time {
	if i.Now != nil {
		return i.Now()
	}
	return time.Now()
}

// client sends a secret to one address and nowhere else: a redirect is an
// answer. Nothing is kept for the next question, so that no request is sent
// again by itself when a kept connection turns out to be dead.
func (i Issuer) client() *http.Client {
	if i.Client != nil {
		return i.Client
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DisableKeepAlives = true
	return &http.Client{Transport: t, Timeout: askTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Refresh uses a login's refresh token, once. With VerdictAlive the bundle is
// the login as it is now, and the one that was given is spent: save it before
// anything else. No other verdict has one.
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
		panic(err) // texts
	}
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, bytes.NewReader(body))
	if err != nil {
		return Answer{Verdict: VerdictUnknown, Reason: "the token endpoint is no URL"}, nil
	}
	req.GetBody = nil // never sent a second time by the transport
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

// endpoint says where a login is refreshed and as which client, as codex does.
func (i Issuer) endpoint(auth []byte) (at, client string, err error) {
	var a struct {
		Tokens struct {
			From struct {
				Issuer string `json:"issuer"`
				Client string `json:"client_id"`
			} `json:"oauth_provenance"`
		} `json:"tokens"`
	}
	_ = json.Unmarshal(auth, &a) // it was read before
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
	// A login is a file that came from somewhere: what it names must keep a secret.
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

// unanswered is a request of which nothing came back.
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

// deadCodes are the last words of an issuer: OAuth's own, and those that codex
// tells apart.
var deadCodes = map[string]string{
	"invalid_grant":             "its refresh token is not valid",
	"refresh_token_expired":     "its refresh token has expired",
	"refresh_token_reused":      "its refresh token was used before: somebody else has the same login",
	"refresh_token_invalidated": "its refresh token was revoked",
}

// refusal is an answer that holds no tokens.
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
		// Who says so is not who was asked, but something on the way there (520
		// to 527 are Cloudflare's): that one may have done it.
		return lost(said)
	}
	return Answer{Verdict: VerdictUnknown, Reason: said + ", which says nothing of the login",
		Hint: "check seeds.token_endpoint in the config of the workers"}
}

// statusClientClosed is what a proxy says when it lost its client.
const statusClientClosed = 499

// retryAfter reads seconds; a date is not worth it.
func retryAfter(resp *http.Response) time.Duration {
	n, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil || n < 0 {
		return 0
	}
	return min(time.Duration(n)*time.Second, 24*time.Hour)
}

var wordLike = regexp.MustCompile(`^[a-z][a-z0-9_.-]{0,60}$`)

// errorCode reads {"error":{"code":…}}, {"error":…} and {"code":…}. Anything
// that is no word is left out: it may be anything.
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

// hostOf names an endpoint in messages.
func hostOf(at string) string {
	u, err := url.Parse(at)
	if err != nil {
		return "the token endpoint"
	}
	return u.Host
}

// renewed is a bundle whose login is what a refresh answered. What codex keeps
// beside the tokens stays as it was.
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

// tokensIn reads what can be used of an answer, whole or cut. All three tokens are
// optional, as they are for codex, and a damaged one is left out: the new refresh
// token is the login, and is not thrown away for what came beside it. If that one
// itself is damaged or cut off nothing can be used: the old one counts no more.
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
		return nil // it may have come behind the cut
	}
	return got
}

func text(s string) json.RawMessage {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err) // a text
	}
	return data
}
