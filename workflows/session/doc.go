// Package session is the workflow Session: one durable conversation, and the only owner of
// its codex process.
//
// The workflow holds the state and decides what happens next. It is a loop over a table of
// steps (steps.go). The code of a step belongs to one of the parts of a session (parts.go).
// Handlers of messages run between steps and change only the state. Messages come by
// signal or by update; their types are in internal/protocol.
//
// The package is larger than others because all its parts work on the state of one
// conversation, and one loop orders what they do.
//
// # The life of a session
//
//	queued → preparing → starting → idle ⇄ running ⇄ waiting → closing → closed
//	                          resuming    (codex is restarted, or a host is acquired again)
//	                          parked      (it holds nothing; a message brings it back)
//	                          interrupted (a turn was cut off, or codex cannot go on; a message tries again)
//	                          failed      (it could not begin, the host rejects us, or on_interrupt is fail;
//	                                       it waits out passing faults, and faults of one worker, and shows them)
//
// While a turn runs, one activity (the pump) is attached to codex's journal. While codex
// waits for a person, the session has no activity running and no SSH channel open. Instead,
// one activity for the whole host (the watch) looks at all such processes from time to
// time. The pool keeps the watch running while the host has sessions. If something happened
// to a process, the watch signals stirred to its session, and the session starts a pump to
// look. The watch costs other sessions nothing.
//
// # Which message may come when
//
// Signals and updates of the same name take the same JSON. A refused update costs no event;
// a refused signal is kept in Refusals. In the table, "ends" means closing, closed or
// failed. The table also holds after the death of a worker.
//
//	message (queue)   any state but ends      → queued, answered with its turn number
//	                  same id, same text      → the first answer again, also while closing
//	                  same id, other text     → refused
//	                  the budget is spent     → refused
//	                  ends                    → refused
//	message (steer)   running, waiting, and resuming with a turn that never began
//	                                          → goes into the running turn. If that turn ends first, the message
//	                                            becomes a turn of its own, or is void if it names the turn
//	                  it names another turn than the running one, or a compaction or review runs → refused
//	                  any other               → refused
//	message (do)      as message (queue); compact before the first turn → refused
//	unsend            the message is queued   → its turn never begins, and keeps its number
//	                  its turn has begun, or it was taken back → refused; unknown → not found
//	set               any state but ends      → model and effort apply from the next turn on, the name
//	                                            at once; a model that codex does not list is refused, or
//	                                            reported later if codex did not run yet
//	                  ends                    → refused
//	models            any state but ends      → codex is asked if nobody has asked yet and nothing runs
//	archive           idle, interrupted, parked, with no message queued → it parks, and takes no
//	                                            message and no resume until unarchive
//	                  any other               → refused
//	unarchive         archived                → as any parked session; any other → refused
//	decide            approval open, digest equal, outcome offered, its answers or grant fit → decided
//	                  decided, expired, void  → refused; for void the reason is given
//	                  unknown approval        → not found
//	                  ends                    → refused
//	interrupt         waiting for the end of a limit (on_limit) → the wait ends, the queue goes on
//	                  running, waiting, and resuming with a turn that never began
//	                                          → the turn is interrupted, even before codex acknowledged it,
//	                                            and at once if the session waits to start codex;
//	                                            a second interrupt asks codex again; a turn that ends first
//	                                            keeps its own end
//	                  waiting to park or to move → it stays on its host, and the queue goes on
//	                  any other               → refused
//	budget            any state but ends      → applies at once; a running pump is cancelled for it
//	                  ends                    → refused
//	snapshot          the session has work on a host: idle, running, waiting, interrupted, resuming
//	                                          → a snapshot is taken concurrently, answered with its number
//	                  parked (it has a snapshot), no turn yet, snapshots are off → refused
//	park              idle, interrupted, waiting for the end of a limit → all is saved, host and seed are given back
//	                  parked                  → no change
//	                  any other               → refused
//	                  resuming, between two attempts to come back
//	                                          → it parks again, with its queue
//	resume            preparing or resuming, between two attempts
//	                                          → it tries at once; if it has no host yet, on the named host
//	                  parked; resuming while it waits for a host
//	                                          → it comes up on the named host; if none is named, preferably on its
//	                                            former host
//	                  idle, interrupted, another host is named → it parks, and comes up there; while
//	                                            it parks, it waits out passing faults
//	                  running or resuming on a lost host, with a snapshot → it goes on elsewhere
//	                  any other               → refused
//	close             any state but ends      → the turn is interrupted, then all is saved, wiped and given back;
//	                                            a decision on its way is delivered first, open approvals are void
//	                  parked                  → its folder is removed, which needs no slot; if the
//	                                            host is away, its pool does that later
//	                  closing, failed; with discard → all that cannot be saved is given up
//	                  closing, failed; without discard → refused
//	leave (from a pool)  its host is drained → no further turn begins there: it parks, or goes on elsewhere
//	stirred (from a   waiting, the signal is about this process and tells news → a pump looks
//	watch)            a pump is attached, or it is about another process, or any other state → nothing
//	any               closed, or failed and cleaned up → refused by Temporal: the workflow has ended
//
// A session with close_after closes after the last message that it accepted. It does not
// wait for a person if an earlier turn was cut off, failed or was interrupted, because
// perhaps nobody looks after it. With on_interrupt fail it fails at once when a turn is cut
// off.
//
// If a host knows a newer holder of the session (the session is fenced), the session
// changes nothing on the host and parks with its queue. It comes back with a higher epoch
// when a person sends a message or resume.
//
// Cleaning up on a host is retried until it succeeds or somebody says discard; the seed and
// the slot are held until then. A session with close_after or notify ends if its host
// cannot be reached for three minutes. Then the pool cleans the host later, and the seed
// recovers the login. If the first attempt to clean up, or to read the turn to its end,
// fails, the session reports its end to the batch or to the firing of the schedule, which
// goes on. If the turn was not read, its end is then unknown.
//
// Closing gives codex 15 seconds to end a turn. Then it stops codex and reads the journal
// to its end before it deletes the journal, however long the host is away. Only discard
// gives up the unread rest. The transcript then has all that pumps had read, and says that
// the rest was not read.
//
// # What passes is waited out
//
// An accepted message is kept. When a session begins, comes back, moves or starts codex for
// a turn, it waits out a passing fault (see the table at FailurePasses). The activity makes
// a few attempts. If they fail, the session pauses before it runs the activity again, first
// for 5 seconds, finally for 5 minutes. Its state does not change, and waiting_for shows
// the fault. The wait ends when an attempt succeeds or when a person ends it. If the
// session has not begun a turn yet, start_timeout also ends it. The next run of the
// workflow continues the wait.
//
// # Snapshots
//
// A snapshot is taken after each turn (or only when the session parks or closes), on
// request, and optionally at intervals within a long turn, but not while the turn waits for
// a person. Neither the answer of a turn nor the next turn waits for a snapshot. One
// snapshot is taken at a time; requests made meanwhile share the next one. A failed
// snapshot is shown, also in the transcript, and does not replace the last good one. The
// session retries after the next turn and, if that may help, while it idles, first after a
// minute, finally every hour. Only the session knows which snapshot is good: it never
// continues from anything else in the store. A run that must continue as new cancels a
// snapshot in progress, and the next run takes that snapshot again. The snapshot that a
// fork begins with is pinned before the fork asks for a host.
//
// # Parking
//
// An idle or interrupted session parks on request, or when nothing was requested of it for
// park_after, but not while a turn runs or waits. Codex is stopped, its login saved, a
// snapshot taken and the credential wiped; only then are seed and slot given back. The
// folder stays on the host, and takes no slot. The pool remembers the folder, prefers that
// host when the session comes back, and removes the folder if the session goes on elsewhere
// or its workflow ends.
//
//	a message while it parks  parking is cancelled, and the session goes on where it is; first any
//	                          process of codex is ended, and the credential planted again
//	a close while it parks    the same, and it closes
//	parking fails             if it was told to park or to move, it waits out a passing fault, shows
//	                          it, and retries without limit. A message ends the wait to park, an
//	                          interrupt ends the wait to park or to move, and resume retries at
//	                          once. If it parks by itself, or the fault does not pass, it stays
//	                          where it is, says why, and tries again after park_after
//	the workers are busy      workers move a limited number of snapshots at a time. The session waits
//	                          until one has room, and says so
//	it cannot come up         it waits out a passing fault, shows it, and retries without limit. If a
//	                          host cannot be reached, an attempt goes on to another one (at most
//	                          3), unless the session is pinned to that host or a person named it.
//	                          An interrupt ends the attempts. After a fault that does not pass it
//	                          is parked again and says why; a message or resume tries again
//
// # A lost host
//
// A host is lost when an activity could not reach it for lost_after (5 minutes, which is
// long enough for a reboot). The activity is a turn's pump, or the one that ends a former
// process of codex before the next is started. Then on_host_lost decides:
//
//	wait  the default, because the turn may still run there. The session shows the
//	      host, since when it is lost, and that resume has the session go on
//	      elsewhere. It goes on by itself when the host is back.
//	move  the turn is cut off as if its process had died (on_interrupt then
//	      decides, decisions are kept), and the session goes on on another host
//	      from its newest good snapshot. The session shows this as a new attempt.
//
// First, the session records all that was read on the lost host: a person's messages with
// their delivery states, and the beginning of codex's answer. A turn is then interrupted if
// codex is known to have its message, and unknown if not. If the end of a turn was read,
// but no snapshot could be taken after it, the turn is interrupted as well: its answer is
// shown, and its error (host_lost) says that its work is not kept.
//
// If the thread had turns and there is no snapshot, the session cannot go on elsewhere, and
// always waits. A session that moves gives back the slot on the old host and says what it
// left there. The pool ends the processes that still run there. Until then it does not
// grant that host to the session again. The session gives back the seed and says that the
// credential may still be on the old host. An API key can be granted again at once. A pool
// of logins grants another login. A login that rotates is first fetched from the old host
// (or given up with `ctl seed revive`). One message, which begins no turn, tells codex once
// from which host to which it was moved, after which turn the snapshot was taken, and that
// later work may be missing. A follow-up message (on_interrupt continue) repeats the task
// unless the snapshot has the task, because no history can show whether the task had
// effects.
//
// # How far a message came
//
//	queued        its turn has not begun
//	decided       it is on record here, and not known to have been written to codex
//	sent          it was written, or may have been
//	acknowledged  codex has it (a budget: a pump has worked with it)
//	rejected      codex refused it
//	void          its purpose is gone, and it was certainly not written
//
// A pump reports these states when it returns. If it returns no result, its messages stay
// "sent" until the next pump has read the journal. Only after that is a message sent again,
// if it is not known to have been written.
//
// # When codex's process dies
//
// The process may have been killed, have run out of memory, have ended with its host or
// have lost its journal. In each case the session says how the process ended, what is
// certain and what is not. Unanswered requests are void, with the reason. Commands that the
// process left running on the host are ended at once. A message that certainly never
// reached codex goes to the next process. The status of any other turn is interrupted, or
// unknown if codex may or may not have had its message. Then the session's on_interrupt
// decides:
//
//	ask       the state is interrupted, and the queue waits for the next message
//	continue  a new process resumes the thread, and a turn of the session's own
//	          (message <id>.c<n>) tells codex to go on: at most 3 such turns in a row
//	          that codex does not end itself. If it is unknown whether codex had the
//	          message, a pump first looks into the thread's history. If the message is
//	          there, the turn was cut off and is continued. If not, the message is
//	          delivered. If the history cannot be read, the session waits for a person.
//	fail      the session closes as failed; all is saved and cleaned up
//
// A turn is not continued if somebody wanted to end it (interrupt, close, a decision to
// cancel), if it reached its timeout, or if the budget is spent. A thread is resumed by its
// id with its former sandbox or profile, approval policy, cwd, model and effort. If the
// thread cannot be resumed with these settings, the session stops and says so.
//
// A decision that had no visible effect is lost with the process too. earlier.go says what
// the earlier decision means if codex asks for the same again. The earlier decision is
// always shown.
//
// # Answers
//
// Some outcomes need more in the decision: answers to the questions, or a part of the
// requested permissions. decide.go checks these against the request (for an update, before
// it costs an event), and the pump checks them again. A secret answer is not part of a
// message. The worker's API checks it and writes it encrypted into the store. The decision
// names the blob, and the blob's name contains the session and the request's digest. From
// then on claims say that codex got secret answers, so that every activity redacts them.
// The next pump deletes the answers of void requests (Forget), and closing deletes all
// others.
//
// # Bounds
//
// All that a session carries fits into one Temporal payload (2 MiB): 1000 queued messages,
// 768 KiB of their text, 256 KiB for one, the last 10 turns and 40 approvals, the decisions
// on 100 requests that were lost with a process. A run with a long history continues as
// new. It may do so between any two steps, also while a turn runs. No accepted message is
// lost or sent twice.
package session
