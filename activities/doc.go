// Package activities has the activities with which workflows act on hosts, on the store,
// and in conversations with codex. It keeps no state that must survive: the host and the
// store record its work.
//
// A Set holds the activities that one worker registers. A Claim names the session for which
// an activity acts on a host; with the attempt it makes the epoch that the host compares. A
// method of Activities reads what Temporal says about the attempt, and the function of the
// same name does the work.
//
// Promises:
//
//   - every activity may be run again, even while an older attempt still runs elsewhere: it
//     gives the same result, or an error that says what is in the way;
//   - a failure leaves nothing half done, and no credential, on the host; if the host
//     cannot be reached, the error says what stays there;
//   - nothing is removed from a host before the store has everything that must last;
//   - every error, except those of overseer.Engine, is an ApplicationError of an ErrType,
//     whose details hold one Problem: what failed and what to do;
//   - known secrets of the session's seed are removed from everything that is stored,
//     published, or returned to a workflow.
//
// # Packages
//
//	hosts       hosts, whoever uses them: check, probe, provision, run a command
//	places      a session's place on a host: prepare, start and stop codex, park, close, wipe
//	pumps       conversations: the pump, the watch of a host, what a lost host had said
//	hearing     tells pumps that their workflow calls, on a server that does not
//	slots       the activity slots of a worker, by how long activities take
//	gateways    the model gateway of a session, open while a pump talks
//	workspaces  the content of a work folder: clone, restore, hooks, push, compare
//	logins      seeds and logins: capture, save, refresh, recover
//	snaps       snapshots: take, restore, pin, prune, check
//	batches     batches: start items, keep results
//	audits      audit records: written for workflows, made of what the worker refuses
//	overseer    questions to Temporal itself
//
//	site        what one worker has: connections, limits, secrets to hide
//	inquiry     questions to workflows, and their messages
//	records     what the store keeps of a session, and how it is read
//	folder      a session's folder on a host, and its processes
//	codexpkg    codex packages on the worker
//	internal/kit  errors, progress, the gate for moves
//
// Kept in the store:
//
//	transcripts/<session>/<first seq>-<generation>.<pump>.<part>   JSON lines of Entry
//	requests/<session>/<digest>                                    a Request with nothing cut
//	verdicts/<session>/<generation>.<pump>-<name>                  the verdict of policies about paths that the host resolved
//	diffs/<session>/<turn>-<incarnation>.<offset>                  the TurnDiff of a turn up to that offset; only the newest is kept
//	owned/<kind>.<id>.<occasion>/<family>/<name>                   blobs of messages, batches and schedules: see internal/owned
//	answers/<session>/<digest>-<random>                            secret answers to a request, until codex has them
//	told/<session>/<digest>-<random>                               the same, for redaction, until the session is closed
//	rooted/<session>/<host>                                        the root folder of a host in which a session was prepared; until all of it is kept or gone
//	heard/<session>                                                what the newest pump knew when its wire was lost; until the session comes up again, or ends
//	deliverables/<session>/calls/<call>                            the outcome of a call of deliver: a Deliverable, or the reason of a refusal
//	deliverables/<session>/content/<name>                          the delivered files, each content once
//	audit/<entity>/<first seq>-<number>-<digest>                   audit records of an entity, as JSON lines: see internal/audit
//	exec/<id>/<stream>-<offset>                                    raw output
//	exec/<id>/end                                                  an ExecResult
//	snapshot-pins/<snapshot>/<session>.<run>                       a mark that a fork will begin with the snapshot
//	refreshes/<seed>/<digest of auth.json>                         a mark that this refresh token was about to be used
package activities
