// Package httpapi is the HTTP API for programs: sessions, messages, approvals, transcripts,
// deliverables and snapshots, without ctl. Its answers are the JSON of ctl. OpenAPI 3.1 at
// /openapi.json describes it; huma makes that document from the types here, and checks
// requests by it.
//
//	POST /v1/sessions                          start a session, with a first message or without
//	GET  /v1/sessions                          list sessions
//	GET  /v1/sessions/{id}                     show one
//	POST /v1/sessions/{id}/messages            send a message
//	GET  /v1/sessions/{id}/turns/{n}           show a turn
//	POST /v1/sessions/{id}/interrupt|close|park|resume
//	POST /v1/sessions/{id}/settings            name, model, effort, budget
//	POST /v1/sessions/{id}/archive|unarchive|unsend|compact|review|push
//	GET  /v1/sessions/{id}/models              which models codex lists
//	GET  /v1/sessions/{id}/events              follow it: server-sent events
//	GET  /v1/sessions/{id}/entries             pages of its transcript
//	GET  /v1/sessions/{id}/delivered           its deliverables
//	GET  /v1/sessions/{id}/delivered/{call}    one of them, as a file
//	POST /v1/inputs                            upload a file that goes with a message
//	POST /v1/trees                             upload a work folder (tar), for a session to begin with
//	GET  /v1/sessions/{id}/work/archive        files of its work folder (tar)
//	GET  /v1/sessions/{id}/work/diff           what changed there
//	GET  /v1/sessions/{id}/turns/{n}/diff      what a turn changed
//	GET  /v1/sessions/{id}/snapshots           its snapshots
//	POST /v1/sessions/{id}/snapshots           take one
//	GET  /v1/sessions/{id}/snapshots/{snapshot}   DELETE: delete it
//	GET  /v1/sessions/{id}/snapshots/{snapshot}/archive   as a file (tar)
//	POST /v1/sessions/{id}/snapshots/{snapshot}/restore   go on from it, as a new session
//	POST /v1/sessions/{id}/fork                the same, from where the session is
//	GET  /v1/session-snapshots                 those of all sessions
//	GET  /v1/approvals                         list approvals
//	GET  /v1/approvals/{id}                    show one in full
//	POST /v1/approvals/{id}/decision           decide it
//	GET  /v1/hosts, /v1/hosts/{name}           hosts, their slots and states
//	POST /v1/hosts/{name}                      add one; DELETE: remove it
//	POST /v1/hosts/{name}/check|drain|undrain|cordon|settings
//	GET  /v1/pools, /v1/pools/{zone}           zones: slots and who waits
//	POST /v1/pools/{zone}/pause|resume|settings
//	GET  /v1/seeds, /v1/seeds/{name}           seeds: health, usage and holders
//	POST /v1/seeds/{name}/settings|verify|revive   DELETE /v1/seeds/{name}: forget it
//	GET  /v1/batches, /v1/batches/{id}         batches
//	GET  /v1/batches/{id}/results
//	POST /v1/batches/{id}                      start one
//	POST /v1/batches/{id}/cancel|settings|retry
//	GET  /v1/schedules, /v1/schedules/{name}   schedules
//	POST /v1/schedules/{name}                  create one
//	POST /v1/schedules/{name}/pause|resume|trigger|backfill
//	DELETE /v1/schedules/{name}
//	GET  /v1/audit/records|export|verify       audit records
//
// The older routes of package api stay as they are: ctl uses them.
//
// # Parts
//
// An [API] has the handlers. It knows neither Temporal nor the store: [Sessions] asks and
// commands workflows (cmd/internal/apiflows), and [Records] reads what the store and the worker
// keep ([fairlead.dev/fairlead/internal/api.Records]). Package api serves it: it finds out who
// calls, judges by the verb of the route, keeps refusals on record, and asks again every few
// seconds while an answer goes on. It checks Host and Origin as for its own routes.
//
// # Authority
//
// With authority: required, a request has an API token or a signature, and the API commands
// workflows for the principal so proved. It signs these commands with the key of its worker,
// and names the principal and the groups of their certificate. Each workflow judges the
// command again, and its audit record has the signature. With authority: local, whoever reaches
// the unix socket is the owner of the stack, and so is whoever has the worker's token, over TLS.
// Without either, the API is refused: every user of the machine can reach a loopback address.
//
// # The same request again
//
// A POST with the header Idempotency-Key can be repeated: the first request with a key binds
// the key to its content, for the principal, in Temporal. All ids that a command needs come from
// principal and key. So a repetition has the same result, at any worker, also after the worker
// that took the first one has died, and while the first one is still on its way. The same key
// with other content is refused with status 422. A key is known for as long as Temporal keeps
// ended workflows. A session knows ids of its newest messages and requests, beyond the end of a
// run: see [fairlead.dev/fairlead/internal/protocol.KeepRequests].
//
// # Errors
//
// An error is a problem of RFC 9457. Its type ends with its kind, a word of package errkind as
// ctl has it, and its hint says what to do.
//
// # Files
//
// A file is never whole in memory. An upload says its size and its SHA-256 (Repr-Digest, RFC 9530),
// and nothing of it is kept if they are wrong. A download says the same, has an ETag, and comes in
// parts if the client asks for one. The last byte comes only if the content has the digest that was
// recorded. Files of a work folder come from its host as they are read, so their digest is a trailer.
//
// # Lists and streams
//
// A list has at most limit items, and the cursor of the next page, which is opaque. Requests
// are bounded in size, and unknown fields are refused.
//
// The id of an event is the seq of its entry, so a client that reconnects with Last-Event-ID
// gets the next entries. The first event is then resumed. It has the id that the entry with
// that seq has now. If the client has an entry with another id, it asks again from an earlier
// seq. The event resync can come later in a stream: the entries from its seq on are void, and
// others follow. Comments keep the connection alive.
package httpapi
