// Package api is a worker's HTTP API and its client. Commands and state go through
// Temporal. The API carries data that is too large or too frequent for Temporal: live text,
// transcripts, command output, long prompts and seeds.
//
// The worker's activities report events to a [Hub], which is their activities.Live. A
// [Server] serves those events and the contents of the store over HTTP. A [Client] reads
// them, reconnects by itself when it loses the connection or the worker, and drops data
// that it has already received.
//
//	GET  /v1/status                          Status
//	GET  /v1/sessions/{id}/feed?from=SEQ     Events as JSON lines until the session has closed
//	GET  /v1/sessions/{id}/transcript?from=  the same, up to the newest entry
//	GET  /v1/sessions/{id}/live              the state of this worker's pump of the session
//	GET  /v1/sessions/{id}/requests/{digest} a request in full
//	POST /v1/sessions/{id}/requests/{digest}/answers   stores secret answers to the request → StoredAnswers
//	GET  /v1/sessions/{id}/deliverables      the files that the session delivered → a list of Deliverable
//	GET  /v1/sessions/{id}/deliverables/{call}  the file of one deliverable, valid only with the digest in the trailer
//	GET  /v1/exec/{id}?out=BYTE&err=BYTE     Events as JSON lines until the command has ended
//	GET  /v1/sessions/{id}/diff              the changes in the work folder since the session began → WorkDiff
//	GET  /v1/sessions/{id}/files?path=       files of the work folder as a tar archive, valid only with the digest in the trailer
//	GET  /v1/sessions/{id}/diffs/{turn}      the changes of a turn; {turn} is a number, or last for the newest turn that changed files
//	POST /v1/inputs/{kind}?folder=&name=&sha256=&bytes=  stores a file that goes with a message → Input
//	POST /v1/uploads/missing                 lists the chunks of a tree that the store lacks
//	POST /v1/uploads?session=ID              stores a local tree as a snapshot → Manifest
//	POST /v1/tokens?repo=&session=|folder=   stores a token for a git server → StoredToken
//	POST /v1/messages?folder=                stores a long prompt → StoredMessage
//	POST /v1/batches?folder=                 stores a page of a batch's items → StoredPage
//	GET  /v1/batches/results/{folder}/{part} a part of a batch's results, as JSON lines
//	POST /v1/seeds/{name}                    stores a packed seed → StoredSeed
//	POST /v1/seeds/{name}/export             a generation of a seed, encrypted for the recipient in ExportSeed
//	GET  /v1/snapshots?session=ID            the snapshots of a session, or of all sessions, as JSON lines
//	GET  /v1/snapshots/{id}                  the manifest of a snapshot
//	GET  /v1/snapshots/{id}/export           a plain tar archive, valid only with the digest in the trailer
//	DELETE /v1/snapshots/{id}                deletes a snapshot that no running session needs
//
// # Guarantees for a viewer
//
// Entries arrive in the order of their seq, starting with the requested one. Each entry
// arrives once and none is left out, even if the viewer is slow or there are many viewers.
// If a viewer needs entries that are no longer in memory, the server reads them from the
// store. Deltas are sent only for unfinished items, each byte once, with its position in
// the text. A viewer that joins late first gets the existing text of the running item. If
// the session's pump is on another worker, the server follows the session through the
// store, with a delay of seconds and without deltas.
//
// An attempt of a pump that was lost may have published entries that it never reported to
// the workflow. Such entries can become void. The event void gives the first void seq, and
// the entries after the event replace the void ones.
//
// A line of kind alive is sent every few seconds when nothing else is. The last line is
// of kind end. If a stream ends without such a line, it was cut, and the viewer
// reconnects.
//
// # Who may connect
//
// A unix socket (mode 0600) serves the worker's own user. A loopback address serves every
// user of the machine, but no browser. The server does not start with any other address
// unless there are a certificate and a bearer token. It accepts and exports seeds, and
// accepts secret answers, only over a unix socket or TLS. A token is never in a URL or a
// log.
package api
