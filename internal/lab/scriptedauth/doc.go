// Package scriptedauth stands in for the issuer of ChatGPT logins, so that the
// real codex can log in and rotate its tokens with no network and no account.
//
// A Server keeps logins as families of tokens, as the real issuer does:
//
//   - a refresh token can be used once; the answer is a new one, and the
//     previous access token stays good until it expires;
//   - a refresh token that is used a second time revokes its whole family,
//     including the newest token;
//   - tokens have the shape of JWTs, with an expiry, an account and a plan.
//
// Login creates a login as if somebody had logged in elsewhere; AuthJSON
// returns the file that codex would have written. Uses and Requests tell
// afterwards which token was used how often. No record holds a token, only its
// SHA-256.
//
// # What codex 0.169 does, as measured
//
//   - `codex login --device-auth --experimental_issuer URL` sends POST
//     URL/api/accounts/deviceauth/usercode {client_id}, shows URL/codex/device
//     and the code, polls POST URL/api/accounts/deviceauth/token
//     {device_auth_id, user_code} every `interval` seconds (403 and 404 mean
//     not yet; any other error ends it; it gives up after 15 minutes), and
//     sends the code that it gets to POST URL/oauth/token as a form. It then
//     writes auth.json, with tokens.oauth_provenance {issuer, client_id} and
//     tokens.login_owner_id, and exits 0. ^C leaves no auth.json. It also
//     leaves auth.json.lock, auth.lock and log/.
//   - If the model answers 401, codex reads auth.json again and repeats the
//     request; after another 401 it refreshes, writes auth.json, and repeats
//     once more. So a scripted model needs {fail: {kind: unauthorized, times:
//     2}}, or Guard.
//   - An access token that expires within five minutes is refreshed before it
//     is used.
//   - The refresh is POST {client_id, grant_type: refresh_token, refresh_token,
//     refresh_reason} as JSON, to $CODEX_REFRESH_TOKEN_URL_OVERRIDE; without
//     that, to <issuer>/oauth/token with the issuer of tokens.oauth_provenance;
//     without that, to https://auth.openai.com/oauth/token.
//
// # Faults
//
// Fail obstructs the next requests of an endpoint. The kinds cover the cases
// that a client must distinguish:
//
//	rate_limited, server_error, unavailable, garbage, html, unauthorized   answered, nothing rotated
//	drop      the connection is closed, nothing was rotated
//	hang      no answer and nothing rotated, until Release
//	lost      rotated, and the connection is closed before the answer
//	held      rotated, and the answer is delayed until Release
//	slow      normal, after a delay
//	invalid_grant, expired, invalidated   refused as if the login were gone, nothing rotated
//
// A request of an unknown path, grant, client or shape is a surprise: it is
// answered with status 400 and a sentence, and recorded for Surprises. A test
// can fail on it; one that uses Serve does.
//
// # Control over HTTP, for programs that are not Go tests
//
//	GET  /healthz                 {"ok":true}
//	POST /control/login           {"account","email","plan","user","mark","access_ttl"} → auth.json
//	POST /control/fail            {"kind","times","endpoint","retry_after","delay"}
//	POST /control/release         frees what hangs or is held
//	POST /control/expire          {"account"}: its access tokens are no longer good (Guard)
//	POST /control/revoke          {"account"}: its families are revoked
//	GET  /control/devices         device codes
//	POST /control/approve         {"user_code", "account", …}: somebody entered it
//	POST /control/deny            {"user_code"}
//	GET  /requests, GET /surprises, POST /reset
//
// There is no access control: it is for loopback.
package scriptedauth
