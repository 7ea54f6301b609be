// Package api is a worker's HTTP API and its client, for data that is too large or too
// frequent for Temporal: live text, transcripts, command output, long prompts and seeds.
// Commands and state go through Temporal.
//
// The package is larger than others because the server and the client of each route share its
// types and its bounds.
//
// Activities report events to a [Hub], their records.Live. A [Server] serves those events
// and the contents of the store. A [Client] reads them, reconnects when it loses the
// connection or the worker, and drops data that it already has.
//
//	GET  /v1/status                          Status
//	GET  /v1/login                           where people log in → login.Settings
//	POST /v1/login                           an ID token and a key, login.Request → login.Certificate
//	POST /v1/whoami                          a signed command → Caller
//	GET  /v1/sessions/{id}/feed?from=SEQ     Events as JSON lines until the session has closed
//	GET  /v1/sessions/{id}/transcript?from=  the same, up to the newest entry
//	GET  /v1/sessions/{id}/live              the state of this worker's pump
//	GET  /v1/sessions/{id}/requests/{digest} a request in full
//	POST /v1/sessions/{id}/requests/{digest}/answers   secret answers → StoredAnswers
//	GET  /v1/sessions/{id}/deliverables      a list of Deliverable
//	GET  /v1/sessions/{id}/deliverables/{call}  a file *
//	GET  /v1/exec/{id}?host=&out=BYTE&err=BYTE  Events as JSON lines until the command has ended
//	POST /v1/tunnels/{host}/{port}?zone=     a connection to the port of a host, after an Upgrade: package tunnel
//	GET  /v1/sessions/{id}/diff              the changes in the work folder since the session began → WorkDiff
//	GET  /v1/sessions/{id}/files?path=       files of the work folder as a tar archive *
//	GET  /v1/sessions/{id}/instructions      what codex is told before all messages, and by whom
//	GET  /v1/sessions/{id}/model-bodies      what workers kept of requests to the model gateway; who reads one is on record
//	GET  /v1/sessions/{id}/model-bodies/{body}  one of them → records.ModelBody
//	GET  /v1/sessions/{id}/diffs/{turn}      the changes of a turn: a number, or last for the newest turn that changed files
//	POST /v1/inputs/{kind}?folder=&name=&sha256=&bytes=  a file that goes with a message → Input
//	POST /v1/uploads/missing                 lists the chunks of a tree that the store lacks
//	POST /v1/uploads?session=ID              a local tree, as a snapshot → Manifest
//	POST /v1/tokens?repo=&session=|folder=   a token for a git server → StoredToken
//	POST /v1/messages?folder=                a long prompt → StoredMessage
//	POST /v1/batches?folder=                 a page of a batch's items → StoredPage
//	GET  /v1/batches/results/{folder}/{part} results of a batch, as JSON lines
//	POST /v1/seeds/{name}                    a packed seed → StoredSeed
//	POST /v1/seeds/{name}/export             the newest generation, if the seed permits it, encrypted for the recipient in ExportSeed
//	GET  /v1/snapshots?session=ID            snapshots of one or all sessions, as JSON lines
//	GET  /v1/snapshots/{id}                  a manifest
//	GET  /v1/snapshots/{id}/export           a plain tar archive *
//	GET  /v1/audit?session=ID                audit records as JSON lines, some of them twice: of a session and of workers, or all
//	GET  /v1/audit?workflow=ID               the same for any workflow; with a schedule's id, of all firings
//	DELETE /v1/snapshots/{id}                refused if a running session needs it
//	POST /v1/access/why                      WhyAsked → access.Answer: which binding allows something, or why none does
//	GET  /v1/access/versions                 the access files that were in force, a list of AccessVersion
//	GET  /v1/access/versions/{digest}        one of them, as it is
//	GET  /v1/api-tokens                      the API tokens of programs, a list of access.Token
//	POST /v1/api-tokens                      NewToken → MadeToken, which has the secret
//	DELETE /v1/api-tokens/{name}             revokes one → access.Token
//	POST /v1/api-tokens/certificate          a public key of the token that calls → Certificate
//	POST /v1/slack/codes                     a SlackCode, which links an account to the caller
//	GET  /v1/slack/accounts                  the accounts that are linked to the caller
//	DELETE /v1/slack/accounts/{team}/{user}  ends the link of one → SlackAccount
//
//	* valid only with the digest in the trailer
//
// Beside these, which ctl uses, a server has the routes of [Programs]: package httpapi.
//
// # Guarantees for a viewer
//
// Entries arrive in the order of their seq, starting with the requested one, each once and
// without a gap, however slow or many the viewers are: entries that are no longer in memory
// come from the store. Deltas are sent only for unfinished items, each byte once, with its
// position in the text. A viewer that joins late first gets the existing text of the
// running item. If the session's pump is on another worker, the server follows the session
// through the store, with a delay of seconds and without deltas.
//
// A lost attempt of a pump may have published entries that it never reported to the
// workflow. The event void gives the first seq of such entries; the entries after the event
// replace them.
//
// A line of kind alive is sent every few seconds when nothing else is. The last line is of
// kind end or error. A stream without such a line was cut, and the viewer reconnects.
//
// # Who may connect
//
// A unix socket (mode 0600) serves the worker's own user and root, and closes connections of
// other users. A client sends nothing to a socket of another user. A loopback address serves every
// user of the machine, but no browser. Any other address needs a certificate and a bearer
// token. Seeds, secret answers and tokens for git servers travel only over a unix socket or
// TLS. A token is never in a URL or a log.
//
// Where people log in, /v1/login needs no bearer token: the caller has none yet, and an ID
// token with the proof of a key is a credential itself. So is the signature for /v1/whoami.
//
// # Who may do what
//
// With an [Authority], each request needs a principal with the verb of its route. The
// header [command.RequestHeader] proves the principal: a signature of the method, the path
// with its query, the digest of the body, the time, a nonce, and the process that is asked,
// as the header [command.WorkerHeader] of its answers names it. A program shows its API
// token in the header Authorization instead. A signed request counts once. A
// request that goes on is judged again every few seconds. Callers without a principal get
// the status, without what it says about the store and keys. Each chunk of an uploaded tree
// has to be sent, so that nobody gets what others keep by knowing only its digest.
package api
