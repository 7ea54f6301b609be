package gateway

import (
	"fmt"
	"strings"
	"time"
)

// A Kind says how a request ended.
type Kind string

const (
	KindCompleted  Kind = "completed"
	KindIncomplete Kind = "incomplete"    // response.incomplete
	KindFailed     Kind = "failed"        // the provider reported a failure of its own
	KindRateLimit  Kind = "rate_limit"    // too many requests
	KindUsageLimit Kind = "usage_limit"   // a quota or credit is spent
	KindContext    Kind = "context"       // the conversation is too long for the model
	KindBadRequest Kind = "bad_request"   // the provider finds the request wrong
	KindAuth       Kind = "auth"          // the provider refuses the key
	KindCut        Kind = "cut"           // the stream ended too early
	KindGarbage    Kind = "garbage"       // the answer is none of the Responses API
	KindIdle       Kind = "idle"          // the provider was silent for too long
	KindTimeout    Kind = "timeout"       // the request took too long
	KindUnreached  Kind = "unreachable"   // no connection
	KindGone       Kind = "client_gone"   // codex went away
	KindRefused    Kind = "refused_token" // without a valid token; nobody was asked
	KindRejected   Kind = "rejected"      // the request was beyond a bound; nobody was asked
	// A budget of the session (in money, or in tokens), the seed or the tenant does not permit the
	// request, or its stream no longer.
	KindBudget       Kind = "budget"
	KindTokenBudget  Kind = "token_budget"
	KindSeedBudget   Kind = "seed_budget"
	KindTenantBudget Kind = "tenant_budget"
)

// Kinds are all of them.
func Kinds() []string {
	var all []string
	for _, k := range []Kind{KindCompleted, KindIncomplete, KindFailed, KindRateLimit, KindUsageLimit, KindContext, KindBadRequest, KindAuth, KindCut,
		KindGarbage, KindIdle, KindTimeout, KindUnreached, KindGone, KindRefused, KindRejected, KindBudget, KindTokenBudget, KindSeedBudget, KindTenantBudget} {
		all = append(all, string(k))
	}
	return all
}

// Usage counts tokens.
type Usage struct {
	Input, Cached, Output int64
	// Estimated means that the provider did not say, so that these are from the length
	// of the texts.
	Estimated bool
}

// An Outcome is the record of one request.
type Outcome struct {
	At       time.Time
	From     string // the address that connected, as the host tells it
	Path     string
	Model    string // that was asked for
	Upstream string // that was asked last
	Asked    string // the model that it was asked for
	Attempts int
	// FellBack says why the upstreams before Upstream did not answer; empty if it is the first.
	FellBack string
	Status   int // of HTTP, that codex got; 0 if none
	Kind     Kind
	// Message is what the provider or the gateway said, without any key.
	Message string
	// Rebuilt says what of the answer the gateway made.
	Rebuilt string
	Usage   *Usage
	// FirstByte and Total are since the request arrived.
	FirstByte, Total time.Duration
}

// codes of providers' errors. Codes that are not here are passing.
var codes = map[string]Kind{
	"context_length_exceeded": KindContext, "string_above_max_length": KindContext,
	"insufficient_quota": KindUsageLimit, "usage_limit_reached": KindUsageLimit, "usage_not_included": KindUsageLimit, "billing_hard_limit_reached": KindUsageLimit,
	"rate_limit_exceeded": KindRateLimit, "rate_limit_error": KindRateLimit,
	"invalid_api_key": KindAuth, "authentication_error": KindAuth, "account_deactivated": KindAuth, "permission_error": KindAuth,
	"invalid_prompt": KindBadRequest, "invalid_request_error": KindBadRequest, "model_not_found": KindBadRequest, "content_policy_violation": KindBadRequest,
	"unsupported_parameter": KindBadRequest, "cyber_policy": KindBadRequest,
}

func endingOf(e *providerError) *ending {
	code := ""
	if s, ok := e.Code.(string); ok {
		code = s
	}
	kind, known := codes[code]
	if !known {
		kind, known = codes[e.Type]
	}
	if !known {
		kind = KindFailed
	}
	message := e.Message
	if code != "" {
		message = code + ": " + message
	}
	return &ending{kind: kind, message: excerpt(message), passing: kind == KindFailed || kind == KindRateLimit}
}

// excerpt bounds a text of a provider.
func excerpt(s string) string {
	const most = 1 << 10
	s = strings.ToValidUTF8(s, "?")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + fmt.Sprintf(" … (%d bytes)", len(s))
	}
	return s
}
