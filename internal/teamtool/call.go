package teamtool

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// A Call is one call of a tool.
type Call struct {
	ID      string // the same for every attempt
	Session string
	Turn    int
	At      time.Time // the same for every attempt
	Args    json.RawMessage
	// Begun is when the first attempt was begun, by this worker or another; zero means now.
	Begun time.Time
	// Again says that attempts before this Do may have reached the handler.
	Again bool
}

// CallID names a call, the same for every attempt, and for no other call of any session.
func CallID(session, turnID, call string) string {
	sum := sha256.Sum256([]byte(session + "\x00" + turnID + "\x00" + call))
	return "call_" + hex.EncodeToString(sum[:16])
}

// A Reply is what the model gets.
type Reply struct {
	Text string
	OK   bool
}

// Bounds of an answer, and of the pauses between attempts.
const (
	MaxReply = 32 << 10 // bytes
	maxWhy   = 2 << 10  // bytes of a refusal

	firstPause = 250 * time.Millisecond
	lastPause  = 10 * time.Second
	maxHeader  = 32 << 10
)

// A Caller calls webhooks. It follows no redirects.
type Caller struct {
	client *http.Client
	now    func() time.Time
	pause  time.Duration // before the second attempt
}

// NewCaller returns a Caller. It takes the proxy from the environment, as Go programs do.
func NewCaller(now func() time.Time) *Caller {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxResponseHeaderBytes, t.MaxConnsPerHost, t.MaxIdleConnsPerHost = maxHeader, 64, 8
	return &Caller{now: now, pause: firstPause, client: &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

type event struct {
	Type string    `json:"type"`
	At   time.Time `json:"timestamp"`
	Data eventData `json:"data"`
}

type eventData struct {
	ID      string          `json:"id"`
	Session string          `json:"session"`
	Turn    int             `json:"turn"`
	Tool    string          `json:"tool"`
	Args    json.RawMessage `json:"arguments"`
}

// Do carries out a call and returns the reply for the model, also if there is no answer. It
// fails only if ctx ends: then another Do with the same call must follow, with Again set.
func (c *Caller) Do(ctx context.Context, targets []Target, t protocol.TeamTool, call Call) (Reply, error) {
	target, err := Find(targets, t.Webhook)
	if err != nil {
		return call.Fail("The tool %s cannot be called here: %v. Go on without it, and say so.", t.Name, err), nil
	}
	body, err := json.Marshal(event{Type: "tool.call", At: call.At.UTC(), Data: eventData{ID: call.ID, Session: call.Session, Turn: call.Turn, Tool: t.Name, Args: call.Args}})
	if err != nil {
		return call.Fail("The call was not made: its arguments cannot be written as JSON."), nil
	}
	wait, why := t.Wait(), "it was not called in time"
	left := wait
	if call.Again {
		why = "it was called before, and that answer was lost"
	}
	if !call.Begun.IsZero() {
		left = min(wait, call.Begun.Add(wait).Sub(c.now()))
	}
	within, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	for pause := c.pause; within.Err() == nil; pause = min(2*pause, lastPause) {
		var r Reply
		if r, why = c.once(within, target, t, &call, body); why == "" {
			return r, nil
		}
		select {
		case <-time.After(pause):
		case <-within.Done():
		}
	}
	if ctx.Err() != nil {
		return Reply{}, context.Cause(ctx)
	}
	text := fmt.Sprintf("The tool %s gave no answer within %s (%s).", t.Name, wait, why)
	if !call.Again {
		text += " It was not carried out. Try once more later, or go on without it and say so."
	}
	return call.Fail("%s", text), nil
}

// Fail makes a reply that is not the handler's. It never says for certain that a call was
// not carried out if an attempt may have reached the handler.
func (c *Call) Fail(format string, args ...any) Reply {
	text := fmt.Sprintf(format, args...)
	if c.Again {
		text += " An attempt may have been carried out all the same: look before you call it again."
	}
	return Reply{Text: text}
}

// once makes one attempt, and sets call.Again if the handler may have got the call. It
// returns why the call is to be tried again, or "".
func (c *Caller) once(ctx context.Context, target Target, t protocol.TeamTool, call *Call, body []byte) (Reply, string) {
	const ours = "there is trouble on our side, not on yours"
	secrets, err := ReadSecrets(target.SecretFile)
	if err != nil { // perhaps it is being replaced
		return Reply{}, ours
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.Webhook, bytes.NewReader(body))
	if err != nil {
		return Reply{}, ours
	}
	at := c.now().Unix()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/plain")
	req.Header.Set("User-Agent", "fairlead")
	req.Header.Set("Webhook-Id", call.ID)
	req.Header.Set("Webhook-Timestamp", strconv.FormatInt(at, 10))
	req.Header.Set("Webhook-Signature", Sign(secrets, call.ID, at, body))
	resp, err := c.client.Do(req)
	if err != nil {
		call.Again = call.Again || !refusedConnection(err)
		return Reply{}, "it cannot be reached"
	}
	defer resp.Body.Close()
	before := *call
	call.Again = true
	data, err := io.ReadAll(io.LimitReader(resp.Body, MaxReply+1))
	if err != nil {
		return Reply{}, "its answer broke off"
	}
	switch code := resp.StatusCode; {
	case code >= 200 && code < 300:
		return answer(resp.Header.Get("Content-Type"), data), ""
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests, code >= 500:
		return Reply{}, fmt.Sprintf("its status is %d", code)
	case code >= 300 && code < 400:
		return before.Fail("The tool %s was not called: its address leads elsewhere (status %d), and that is not followed. Go on without it, and say so.", t.Name, code), ""
	default:
		why := cut(text(data), maxWhy)
		if why == "" {
			why = fmt.Sprintf("status %d, without a reason", code)
		}
		return before.Fail("The tool %s refused the call: %s", t.Name, why), ""
	}
}

// answer reads a reply: a text, or {"text": "…", "success": true}.
func answer(contentType string, data []byte) Reply {
	kind, _, _ := mime.ParseMediaType(contentType)
	if kind == "application/json" && len(data) <= MaxReply {
		var r struct {
			Text    *string `json:"text"`
			Success *bool   `json:"success"`
		}
		if json.Unmarshal(data, &r) == nil && r.Text != nil {
			return Reply{Text: cut(text([]byte(*r.Text)), MaxReply), OK: r.Success == nil || *r.Success}
		}
	}
	out := cut(text(data), MaxReply)
	if out == "" {
		out = "Done; the tool had nothing to say."
	}
	return Reply{Text: out, OK: true}
}

func text(data []byte) string {
	return strings.ReplaceAll(strings.ToValidUTF8(string(data), "\uFFFD"), "\x00", "\uFFFD")
}

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + fmt.Sprintf("\n[cut at %d bytes]", most)
}
