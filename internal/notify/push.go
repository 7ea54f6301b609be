package notify

import (
	"context"
	"crypto/ecdh"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/SherClockHolmes/webpush-go"

	"fairlead.dev/fairlead/internal/protocol"
)

const (
	maxDevices = 20
	pushTTL    = 24 * 60 * 60 // seconds
)

// A pushed message is what a service worker of a browser gets. A later message with the same
// tag replaces the earlier one.
type pushed struct {
	Tag   string `json:"tag"`
	Title string `json:"title"`
	Body  string `json:"body"`
	URL   string `json:"url,omitempty"`
}

// NewPushKey makes a VAPID key: the private one, for a file, and the public one, for browsers.
func NewPushKey() (private, public string, err error) { return webpush.GenerateVAPIDKeys() }

// publicPushKey returns the public key of a private one.
func publicPushKey(private string) (string, error) {
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(private, "="))
	if err != nil {
		return "", errors.New("key_file has no VAPID key")
	}
	k, err := ecdh.P256().NewPrivateKey(raw)
	if err != nil {
		return "", errors.New("key_file has no VAPID key")
	}
	return base64.RawURLEncoding.EncodeToString(k.PublicKey().Bytes()), nil
}

// push sends a message to all devices of a person. The topic and the tag are the same for each
// attempt, so a device shows it once.
func (s *Sender) push(ctx context.Context, r *Rules, c channel, p person, m Message) Outcome {
	private, err := r.secret(c.KeyFile)
	if err != nil {
		return unsent(err)
	}
	public, err := publicPushKey(private)
	if err != nil {
		return unsent(err)
	}
	text, err := r.secret(p.PushFile)
	if err != nil {
		return unsent(err)
	}
	var devices []webpush.Subscription
	if err := json.Unmarshal([]byte(text), &devices); err != nil || len(devices) == 0 || len(devices) > maxDevices {
		return unsent(errors.New("push_file is not a list of 1 to 20 subscriptions, as browsers make them"))
	}
	note := pushed{Tag: m.ID, Title: plain(m.Subject(), 200), URL: r.Inbox()}
	if len(m.Events) == 1 {
		note.URL, note.Body = m.Events[0].Link, plain(m.Events[0].Summary, maxSummary)
	}
	body, err := json.Marshal(note)
	if err != nil {
		return failed("it cannot be written as JSON")
	}
	urgency := webpush.UrgencyNormal
	for _, e := range m.Events {
		if e.Kind == protocol.EventApprovalOpened || e.Kind == protocol.EventApprovalExpiring {
			urgency = webpush.UrgencyHigh
		}
	}
	var best Outcome
	var reasons []string
	for i := range devices {
		out := s.device(ctx, r, &devices[i], body, &webpush.Options{
			HTTPClient: r.client(), Subscriber: strings.TrimPrefix(c.Contact, "mailto:"), Topic: topic(m.ID), TTL: pushTTL, Urgency: urgency,
			VAPIDPublicKey: public, VAPIDPrivateKey: private, VapidExpiration: s.Now().Add(12 * 60 * 60 * 1e9),
		})
		if out.Reason != "" {
			reasons = append(reasons, out.Reason)
		}
		if best.Result == "" || rank(out.Result) < rank(best.Result) {
			best = out
		}
	}
	best.Reason = strings.Join(reasons, "; ")
	return best
}

// rank orders results: what reached one device is sent.
func rank(r Result) int {
	switch r {
	case Sent:
		return 0
	case Retry:
		return 1
	}
	return 2
}

// topic is at most 32 characters of base64url.
func topic(id string) string { return id[max(0, len(id)-32):] }

func (s *Sender) device(ctx context.Context, r *Rules, to *webpush.Subscription, body []byte, opts *webpush.Options) Outcome {
	if err := checkURL(to.Endpoint); err != nil {
		return failed("a device's endpoint cannot be used: %v", err)
	}
	resp, err := webpush.SendNotificationWithContext(ctx, body, to, opts)
	if err != nil {
		return lost(err, false)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusGone {
		return failed("a device is not subscribed any more: take it out of push_file")
	}
	return status(resp.StatusCode, resp.Header.Get("Retry-After"))
}
