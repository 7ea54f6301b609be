// Package gateway serves the Responses API to the codex of a session, on connections that
// come from the session's host (hostexec.Forward), and asks the provider for it. The
// provider's key stays in this program's memory.
//
// A [Gateway] belongs to one session. Each request needs a token of its [Tokens]; the host
// learns nothing else.
//
// # Retries and fall-back
//
// Nothing of a stream reaches codex before the provider's answer has begun
// (response.created, or the first output of a provider that does not send it). Until then
// a request is repeated, with growing pauses and jitter, or the provider's Retry-After if
// it is not too long: after a connection that failed, a status of 408, 5xx or 429, a
// redirect, an answer that is no event stream, silence, and a stream that ends or reports
// a passing error first. A refused key, a spent quota and a request that the provider finds
// wrong are not repeated.
//
// When an upstream has used up its attempts, or asks for a longer pause, the next one is asked, if
// [FallBack] permits that for such a failure. It does not for a refused key, a spent quota and a wrong request,
// unless it says so. A [Standing] remembers the upstream that failed: for some time, requests ask
// it after the others. Then one request tries it once.
//
// Once something was sent, nothing is repeated. A stream that breaks then is cut, so that
// codex, which knows what it has received, asks again by itself.
//
// # Rebuilt answers
//
// If the final event has no output, it gets the items that were streamed. If there is no
// final event although the provider ended the stream in good order, one is made from the
// finished items, or of a text whose end was announced. A tool call is never made up: a
// stream that ends within one is cut. [Outcome] says what was rebuilt.
//
// # Budgets
//
// A [Meter] is asked before each attempt, and again with each piece of a stream. If it refuses,
// the provider is not asked, or its stream is ended. codex then ends the turn and does not ask
// again. At the end, the Meter gets the tokens that the provider counted, or an estimate if the
// provider did not tell.
//
// # Secrets
//
// The provider's key is replaced in all that goes back to the host: in headers, in the bodies of
// errors, and in events, also if JSON escapes it or if several deltas of a text share it. So are
// the values of an upstream's headers and queries whose names are those of credentials, such as
// api-key. Other values may stand in a text of the model, which must not change. Secrets of less
// than 12 bytes are not searched there. Errors and records of the worker have none of the values.
//
// # Bounds
//
// Requests (also when decompressed), events, output, the time to the first event, silence,
// the whole request, attempts and concurrent requests are bounded by [Limits]. The gateway
// accepts no compressed answers and follows no redirects.
package gateway
