package gateways

import (
	"context"
	"strings"
	"time"

	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/internal/gateway"
	"fairlead.dev/fairlead/seeds"
)

const (
	// mostKeeping bounds the bodies of a Gate that are on their way to the store. Further ones are not kept.
	mostKeeping = 4
	keepWait    = 20 * time.Second
	// mostSecret is longer than a secret of a seed, in bytes.
	mostSecret = 8 << 10
)

// keepBodies keeps what codex asked and got in the store, which encrypts it. It does not block: a body
// that the store does not take is lost.
func (g *Gate) keepBodies(o gateway.Outcome, b gateway.Bodies) {
	select {
	case g.keeping <- struct{}{}:
	default:
		g.site.Logger.Debug("a body is not kept: too many are on their way to the store", "session", g.key.session)
		return
	}
	g.mu.Lock()
	hide := g.hide.All
	g.mu.Unlock()
	go func() {
		defer func() { <-g.keeping }()
		ctx, cancel := context.WithTimeout(context.Background(), keepWait)
		defer cancel()
		text := func(p []byte, n int64) records.BodyText { return bodyText(hide, p, n, int(g.site.Bodies.Bytes)) }
		err := records.KeepModelBody(ctx, g.site.Store, g.key.session, records.ModelBody{At: o.At, Until: g.site.Now().Add(g.site.Bodies.Keep),
			Path: o.Path, Model: o.Model, Upstream: o.Upstream, Asked: o.Asked, Attempts: o.Attempts, Status: o.Status, Kind: string(o.Kind), Message: hide.String(o.Message),
			Request: text(b.Request, b.RequestBytes), Answer: text(b.Answer, b.AnswerBytes)}, g.site.Bodies.SessionBytes)
		if err != nil {
			g.site.Logger.Warn("a body is not kept", "session", g.key.session, "error", err)
		}
	}()
}

// bodyText returns what is kept of a body, at most most bytes without secrets. p is the beginning of
// the body, mostSecret longer than most, or the whole body; n is the length of the whole.
func bodyText(hide *seeds.Redactor, p []byte, n int64, most int) records.BodyText {
	text, cut := hide.String(strings.ToValidUTF8(string(p), "\uFFFD")), int64(len(p)) < n
	if cut { // the end may be part of a secret, which is not found
		text = text[:max(0, len(text)-mostSecret)]
	}
	if len(text) > most {
		text, cut = text[:most], true
	}
	return records.BodyText{Text: strings.ToValidUTF8(text, ""), Bytes: n, Cut: cut}
}
