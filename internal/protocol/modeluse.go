package protocol

import (
	"fmt"
	"strings"
	"time"
)

// A ModelUse is what the model gateway did for a session, or for all sessions with a seed. A worker that dies loses what its
// last pump had not reported yet.
type ModelUse struct {
	Requests int64 `json:"requests"`
	// Retries are attempts of the gateway beyond the first of each request.
	Retries int64 `json:"retries,omitempty"`
	Failed  int64 `json:"failed,omitempty"`
	// Refused counts requests without a valid token. The gateway asked no provider for them.
	Refused int64 `json:"refused,omitempty"`
	// Rebuilt counts answers to which the gateway added a part. LastRebuilt names the last such part.
	Rebuilt     int64  `json:"rebuilt,omitempty"`
	LastRebuilt string `json:"last_rebuilt,omitempty"`
	Input       int64  `json:"input_tokens,omitempty"`
	Cached      int64  `json:"cached_tokens,omitempty"`
	Output      int64  `json:"output_tokens,omitempty"`
	// Estimated counts requests for which the provider did not report the tokens.
	Estimated int64 `json:"estimated,omitempty"`
	// Money is what the requests cost by the workers' prices. Spent is the count of all workers,
	// which the budget bounds: it also has what dead workers had reserved, and what is held for
	// requests under way. So a newer one may be lower.
	Money Money `json:"money,omitempty"`
	Spent Money `json:"spent,omitempty"`
	// FirstByte and Total are sums over the requests.
	FirstByte time.Duration `json:"first_byte_ns,omitempty"`
	Total     time.Duration `json:"total_ns,omitempty"`
	LastKind  string        `json:"last_error_kind,omitempty"`
	LastError string        `json:"last_error,omitempty"`
	// Upstream answered last, as the model Model. FellBack counts the requests that did not go to
	// the seed's first upstream; LastFellBack says why the last of them did not.
	Upstream     string `json:"upstream,omitempty"`
	Model        string `json:"model,omitempty"`
	FellBack     int64  `json:"fell_back,omitempty"`
	LastFellBack string `json:"last_fell_back,omitempty"`
}

// Add adds what a pump tells.
func (u *ModelUse) Add(more *ModelUse) {
	if more == nil {
		return
	}
	u.Requests, u.Retries, u.Failed, u.Refused = u.Requests+more.Requests, u.Retries+more.Retries, u.Failed+more.Failed, u.Refused+more.Refused
	u.Rebuilt, u.Estimated = u.Rebuilt+more.Rebuilt, u.Estimated+more.Estimated
	u.Input, u.Cached, u.Output = u.Input+more.Input, u.Cached+more.Cached, u.Output+more.Output
	u.FirstByte, u.Total = u.FirstByte+more.FirstByte, u.Total+more.Total
	u.Money += more.Money
	if more.Spent > 0 {
		u.Spent = more.Spent // the newest
	}
	if more.LastRebuilt != "" {
		u.LastRebuilt = more.LastRebuilt
	}
	if more.LastKind != "" {
		u.LastKind, u.LastError = more.LastKind, more.LastError
	}
	u.FellBack += more.FellBack
	if more.LastFellBack != "" {
		u.LastFellBack = more.LastFellBack
	}
	if more.Upstream != "" {
		u.Upstream, u.Model = more.Upstream, more.Model
	}
}

// Text says what the model gateway did, in one line.
func (u *ModelUse) Text() string {
	if u == nil {
		return ""
	}
	parts := []string{fmt.Sprintf("%d requests", u.Requests)}
	for _, c := range []struct {
		n    int64
		what string
	}{{u.Retries, "repeated"}, {u.Failed, "failed"}, {u.Rebuilt, "rebuilt"}, {u.FellBack, "not by the first provider"}, {u.Estimated, "with estimated tokens"}, {u.Refused, "without a valid token"}} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	if u.Input+u.Output > 0 {
		parts = append(parts, fmt.Sprintf("%d tokens in (%d cached), %d out", u.Input, u.Cached, u.Output))
	}
	if u.Requests > 0 {
		parts = append(parts, fmt.Sprintf("first byte after %v on average, the whole answer after %v", (u.FirstByte/time.Duration(u.Requests)).Round(time.Millisecond), (u.Total/time.Duration(u.Requests)).Round(time.Millisecond)))
	}
	if u.Money > 0 {
		parts = append(parts, u.Money.String()+" in money")
	}
	if u.Upstream != "" {
		parts = append(parts, fmt.Sprintf("the last answer by %s (%s)", u.Upstream, u.Model))
	}
	text := strings.Join(parts, ", ")
	if u.LastFellBack != "" {
		text += "; last fall-back: " + u.LastFellBack
	}
	if u.LastKind != "" {
		text += fmt.Sprintf("; last error: %s: %s", u.LastKind, u.LastError)
	}
	return text
}
