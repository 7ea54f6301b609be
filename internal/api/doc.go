// Package api is a worker's HTTP API and the client for it. Commands and state
// go through Temporal; what is too much or too fast for it goes this way: live
// text, transcripts, the output of commands, long prompts, seeds.
//
// The nouns: a Hub is told by the worker's activities what happens (it is their
// activities.Live); a Server shows it, and what is in the store, over HTTP; a
// Client reads it, comes back by itself when the connection or the worker goes
// away, and drops what it has had.
//
//	GET  /v1/status                          Status
//	GET  /v1/sessions/{id}/feed?from=SEQ     Events as JSON lines until the session has closed
//	GET  /v1/sessions/{id}/transcript?from=  the same, to the newest entry there is
//	GET  /v1/sessions/{id}/requests/{digest} a request with nothing cut
//	POST /v1/sessions/{id}/requests/{digest}/answers   secret answers to it into the store → StoredAnswers
//	GET  /v1/exec/{id}?out=BYTE&err=BYTE     Events as JSON lines until the command has ended
//	GET  /v1/sessions/{id}/diff              what changed in its work folder since it began → WorkDiff
//	GET  /v1/sessions/{id}/files?path=       files of its work folder, a tar archive, good only with its digest in the trailer
//	GET  /v1/sessions/{id}/diffs/{turn}      what a turn changed, of the newest that did: last
//	POST /v1/inputs/{kind}?folder=&name=&sha256=&bytes=  a file that goes with a message into the store → Input
//	POST /v1/uploads/missing                 which chunks of a tree the store lacks
//	POST /v1/uploads?session=ID              a local tree into the store, as a snapshot → Manifest
//	POST /v1/tokens?repo=&session=|folder=   a token for a git server into the store → StoredToken
//	POST /v1/messages?folder=                a long prompt into the store → StoredMessage
//	POST /v1/batches?folder=                 a page of a batch's items into the store → StoredPage
//	GET  /v1/batches/results/{folder}/{part} a part of a batch's results, as JSON lines
//	POST /v1/seeds/{name}                    a packed seed into the store → StoredSeed
//	POST /v1/seeds/{name}/export             a generation, encrypted for the recipient that ExportSeed names
//	GET  /v1/snapshots?session=ID            those of a session, or all, as JSON lines
//	GET  /v1/snapshots/{id}                  its manifest
//	GET  /v1/snapshots/{id}/export           a plain tar archive, good only with its digest in the trailer
//	DELETE /v1/snapshots/{id}                not the one that a session goes on from
//
// # What a viewer may count on
//
// Entries come in the order of their seq, from the one asked for, each once and
// none left out, whoever else watches and however slow the viewer is: where it
// falls behind what is in memory it is served from the store. Deltas come only
// for items that are not finished, each byte once, positions say where it
// belongs; a late viewer first gets what there is of the running item. A
// session whose pump is on another worker is followed through the store, with a
// delay of seconds and without deltas.
//
// Entries that a lost attempt showed and never reported may turn out void: the
// event void says from which seq, and what follows stands in their place.
//
// A line of kind alive comes every few seconds when nothing else does. The last
// line is of kind end; without one the stream was cut and the viewer comes back.
//
// # Who may connect
//
// A unix socket (mode 0600) serves the worker's own user. A loopback address
// serves whoever is on the machine, browsers excepted. Any other address is
// refused at start unless there are a certificate and a bearer token. Seeds are
// taken and handed out over a unix socket or TLS only, and so are secret answers
// taken. A token is never in a URL or a log.
package api
