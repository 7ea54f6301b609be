// Package console is the web page of Fairlead: people decide approvals, follow sessions and
// command them in a browser.
//
//	GET  /                        the inbox: approvals that wait for a person
//	GET  /approvals/{id}          the card of one; POST …/decision decides it
//	POST /approvals/{id}/passkey  what the browser asks a passkey for a decision
//	GET  /sessions                the list of sessions; POST starts one
//	GET  /sessions/{id}           the page of one; POST …/{act} commands it
//	GET  /batches, /batches/{id}  batches and how far they are; …/cancel asks, and then cancels
//	GET  /batches/new             the form of one; POST /batches starts it
//	GET  /schedules…              schedules; …/{act} asks, and then changes one
//	GET  /schedules/new           the form of one; POST /schedules creates it
//	GET  /hosts, /hosts/{name}    hosts, zones and slots; …/{act} asks, and then changes a host
//	GET  /seeds, /seeds/{name}    seeds: health, use and holders
//	GET  /sessions/{id}/snapshots what is kept of one; …/fork and …/restore ask, and then go on from it
//	GET  /audit                   audit records
//	GET  /passkeys                the person's passkeys; POST adds one, …/remove asks, and then removes one
//	GET  /login…                  login by the issuer, or by the one-time link of `ctl ui`
//
// # Parts
//
// A [Console] renders pages. It knows neither Temporal nor the store of sessions: it asks the
// HTTP API of its own worker ([API]) for the person who has logged in, and the API judges and
// records each request as it does for a program. So a decision in a browser becomes a command
// that the worker signs for the person.
//
// [Logins] keep who has logged in, in the store: a login outlives a worker, and counts at every
// worker of the store. The browser has a random cookie, and the store a digest of it.
//
// # Guarantees
//
//   - Nothing but the console's own files runs in the browser: no inline script or style, and
//     no text of hosts or models becomes HTML.
//   - Everything works without JavaScript, by forms. The script keeps pages up to date.
//   - Only a POST changes anything, and a browser that comes from another page is refused.
//   - Each form has a key of its own, so a second click has the effect of the first.
//   - A form that comes after the end of a login is shown again with its text.
package console
