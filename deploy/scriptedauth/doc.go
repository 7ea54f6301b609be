// Package scriptedauth stands in for the issuer of ChatGPT logins, so that the
// real codex can log in, and rotate its tokens, with no network and no account.
//
// A Server keeps logins as families of tokens, as the real issuer does:
//
//   - a refresh token can be used once; the answer to it is a new one, and the
//     access token that came before stays good until it expires;
//   - a refresh token that is used a second time revokes its whole family:
//     nothing of it is good from then on, the newest included;
//   - tokens are JWT-shaped, with an expiry, an account and a plan in them.
//
// Login makes a login as if somebody had logged in somewhere, AuthJSON is the
// file that codex would have written. Uses and Requests say afterwards which
// token was used how often; neither they nor anything else that is recorded
// holds a token, only its SHA-256.
//
// # What codex 0.169 does, as measured
//
//   - `codex login --device-auth --experimental_issuer URL` asks POST
//     URL/api/accounts/deviceauth/usercode {client_id}, shows URL/codex/device
//     and the code, asks POST URL/api/accounts/deviceauth/token {device_auth_id,
//     user_code} every `interval` seconds (403 and 404 mean: not yet; anything
//     else ends it; it gives up after 15 minutes), and hands the code that it
//     got to POST URL/oauth/token as a form. It then writes auth.json, with
//     tokens.oauth_provenance {issuer, client_id} and tokens.login_owner_id in
//     it, and exits 0. ^C leaves no auth.json. It leaves auth.json.lock,
//     auth.lock and log/ besides.
//   - A model that answers 401 makes codex read auth.json again and repeat the
//     request; if that gets a 401 as well it refreshes, writes auth.json, and
//     repeats once more. So a scripted model wants {fail: {kind: unauthorized,
//     times: 2}}, or Guard before it.
//   - An access token that expires within five minutes is refreshed before it
//     is used.
//   - The refresh is POST {client_id, grant_type: refresh_token, refresh_token,
//     refresh_reason} as JSON, at $CODEX_REFRESH_TOKEN_URL_OVERRIDE; without
//     that, at <issuer>/oauth/token with the issuer of tokens.oauth_provenance;
//     without that, at https://auth.openai.com/oauth/token.
//
// # Faults
//
// Fail puts a Fault in the way of the next requests of an endpoint. Those that
// tell apart what a client must tell apart:
//
//	rate_limited, server_error, unavailable, garbage, html, unauthorized   answered, nothing rotated
//	drop      the connection is closed, nothing was rotated
//	hang      no answer and nothing rotated, until Release
//	lost      rotated, and the connection is closed before the answer
//	held      rotated, and the answer is kept back until Release
//	slow      as ever, after a delay
//	invalid_grant, expired, invalidated   refused as if the login were gone, nothing rotated
//
// A request of an unknown path, grant, client or shape is a surprise: it is
// answered with status 400 and a sentence, and kept for Surprises, so that a
// test can fail on it. Serve does that by itself.
//
// # Control over HTTP, for programs that are not Go tests
//
//	GET  /healthz                 {"ok":true}
//	POST /control/login           {"account","email","plan","user","mark","access_ttl"} → auth.json
//	POST /control/fail            {"kind","times","endpoint","retry_after","delay"}
//	POST /control/release         lets go what hangs or is held
//	POST /control/expire          {"account"}: its access tokens are good no more (Guard)
//	POST /control/revoke          {"account"}: its families are gone
//	GET  /control/devices         codes that wait for somebody
//	POST /control/approve         {"user_code", "account", …}: somebody entered it
//	POST /control/deny            {"user_code"}
//	GET  /requests, GET /surprises, POST /reset
//
// There is no access control: it is for loopback.
package scriptedauth
