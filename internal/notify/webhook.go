package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	"fairlead.dev/fairlead/internal/teamtool"
)

// A hook is the body of a webhook.
type hook struct {
	Type string    `json:"type"` // the kind of the event, or digest
	At   time.Time `json:"timestamp"`
	Data hookData  `json:"data"`
}

type hookData struct {
	Text   string `json:"text"`
	Person string `json:"person,omitempty"`
	Events []Told `json:"events"`
}

// webhook posts a message as Standard Webhooks describes. The receiver drops doubles by
// webhook-id, so a message whose answer was lost is sent again.
func (s *Sender) webhook(ctx context.Context, r *Rules, c channel, m Message) Outcome {
	if _, err := r.secret(c.SecretFile); err != nil {
		return unsent(err)
	}
	secrets, err := teamtool.ReadSecrets(r.path(c.SecretFile))
	if err != nil {
		return unsent(err)
	}
	kind := "digest"
	if len(m.Events) == 1 {
		kind = m.Events[0].Kind
	}
	body, err := json.Marshal(hook{Type: kind, At: m.At.UTC(), Data: hookData{Text: m.Text(r.Inbox()), Person: m.Person, Events: m.Events}})
	if err != nil {
		return failed("it cannot be written as JSON")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(body))
	if err != nil {
		return failed("its URL cannot be used")
	}
	at := s.Now().Unix()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "fairlead")
	req.Header.Set("Webhook-Id", m.ID)
	req.Header.Set("Webhook-Timestamp", strconv.FormatInt(at, 10))
	req.Header.Set("Webhook-Signature", teamtool.Sign(secrets, m.ID, at, body))
	resp, err := r.client().Do(req)
	if err != nil {
		return lost(err, false)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode == http.StatusGone {
		return failed("the receiver is gone (status 410): take the channel out of the rules")
	}
	return status(resp.StatusCode, resp.Header.Get("Retry-After"))
}
