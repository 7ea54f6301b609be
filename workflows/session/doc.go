// Package session is the workflow Session: one durable conversation, and the only owner of
// its codex process.
//
// The workflow holds the state and decides what happens next. It is a loop over a table of
// steps (steps.go); the code of a step belongs to a part of the session (parts.go).
// Handlers of messages run between steps and change only the state. The types of messages
// are in internal/protocol.
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
//	                          failed      (it could not begin, the host rejects us, or on_interrupt is fail)
//
// While a turn runs, one activity (the pump) is attached to codex's journal. While codex
// waits for a person, the session has no activity running and no SSH channel open. One
// activity for the whole host (the watch) looks at all such processes from time to time,
// and signals stirred to a session if something happened. The session then starts a pump to
// look.
//
// # Which message may come when
//
// Signals and updates of the same name take the same JSON. A refused update costs no event;
// a refused signal is kept in Refusals. "Any" means any state but closing, closed and
// failed. What is not listed is refused; an unknown message, turn or approval is "not
// found". Once the workflow has ended, Temporal refuses everything. The table also holds
// after the death of a worker.
//
//	message (queue)   any                     → queued, answered with its turn number
//	                  same id, same text      → the first answer again, also while closing
//	                  same id, other text; the budget is spent → refused
//	message (steer)   running, waiting, and resuming with a turn that never began
//	                                          → goes into the running turn. If that turn ends first, it becomes
//	                                            a turn of its own, or is void if it names the turn
//	                  it names another turn, or a compaction or review runs → refused
//	message (do)      as message (queue); compact before the first turn → refused
//	unsend            the message is queued   → its turn never begins, and keeps its number
//	set               any                     → the name applies at once, model and effort from the next turn
//	                                            on; a model that codex does not list is refused, or reported
//	                                            later if there is no list yet
//	models            any                     → codex is asked, outside a turn, if it runs and gave no list yet
//	archive           idle, interrupted, parked, with no message queued → it parks, and takes no
//	                                            message and no resume until unarchive
//	unarchive         archived                → as any parked session
//	decide            approval open, digest equal, outcome offered, its answers or grant fit → decided
//	interrupt         waiting for the end of a limit (on_limit) → the wait ends, the queue goes on
//	                  running, waiting, and resuming with a turn that never began
//	                                          → the turn is interrupted, even before codex acknowledged it,
//	                                            and at once if the session waits to start codex;
//	                                            a second interrupt asks codex again; a turn that ends first
//	                                            keeps its own end
//	                  waiting to park or to move → it stays on its host, and the queue goes on
//	                  resuming, between two attempts to come back → it parks again, with its queue
//	budget            any                     → applies at once; a running pump is cancelled for it
//	snapshot          it has work on a host   → a snapshot is taken concurrently, answered with its number
//	                  no turn yet, snapshots are off → refused
//	park              idle, interrupted, waiting for the end of a limit → all is saved, host and seed are given back
//	                  parked                  → no change
//	resume            preparing or resuming, between two attempts
//	                                          → it tries at once; if it has no host yet, on the named host
//	                  parked; resuming while it waits for a host
//	                                          → it comes up on the named host, or else preferably on its former one
//	                  idle, interrupted, another host is named → it parks, and comes up there
//	                  running or resuming on a lost host, with a snapshot → it goes on elsewhere
//	close             any                     → the turn is interrupted, then all is saved, wiped and given back;
//	                                            a decision on its way is delivered first, open approvals are void
//	                  parked                  → its folder is removed, by the pool if the host is away
//	                  closing, failed; with discard → all that cannot be saved is given up
//	leave (from a pool)  its host is drained → no further turn begins there: it parks, or goes on elsewhere
//	stirred (from a watch)  waiting, news about the present process → a pump looks
//
// A session with close_after closes after the last message that it accepted, even if an
// earlier turn was cut off or failed, because perhaps nobody looks after it.
//
// If a host knows a newer holder of the session (the session is fenced), the session
// changes nothing on the host and parks with its queue. A message or resume brings it back
// with a higher epoch.
//
// Closing gives codex 15 seconds to end a turn. Then it stops codex and reads the journal
// to its end before it deletes the journal, however long the host is away. Cleaning up is
// retried until it succeeds; seed and slot are held until then. Only discard gives up.
//
// A session with close_after or notify ends if its host cannot be reached for three
// minutes. Then the pool cleans the host later, and the seed recovers the login. If the
// first attempt to clean up, or to read the turn to its end, fails, the session reports its
// end to the batch or schedule, which goes on. The end of an unread turn is then unknown.
//
// # What passes is waited out
//
// When a session begins, comes back, moves or starts codex for a turn, it waits out a
// passing fault (see FailurePasses). The activity makes a few attempts. Before it runs
// again, the session pauses, first for 5 seconds, finally for 5 minutes. Its state does not
// change, and waiting_for shows the fault. A person can end the wait, and so does
// start_timeout if no turn could begin yet.
//
// # Snapshots
//
// A snapshot is taken after each turn (or only when the session parks or closes), on
// request, and optionally at intervals within a long turn, but not while the turn waits for
// a person. A failed snapshot is shown and does not replace the last good one. The session
// retries after the next turn and, if that may help, while it idles, after a minute first
// and every hour finally. Only the session knows which snapshot is good: it continues from
// nothing else in the store. A run that must continue as new cancels a snapshot in
// progress, and the next run takes it again. A fork pins the snapshot that it begins with
// before it asks for a host.
//
// # Parking
//
// An idle or interrupted session parks on request, or when nothing was requested of it for
// park_after. Codex is stopped, its login saved, a snapshot taken and the credential wiped;
// only then are seed and slot given back. The folder stays on the host and takes no slot.
// The pool prefers that host when the session comes back, and removes the folder if the
// session goes on elsewhere or its workflow ends.
//
//	a message while it parks  parking is cancelled, and the session goes on where it is; first any
//	                          process of codex is ended, and the credential planted again
//	a close while it parks    the same, and it closes
//	parking fails             if it was told to park or to move, it waits out a passing fault without
//	                          limit. A message ends the wait to park, an interrupt ends the wait to
//	                          park or to move, and resume retries at once. If it parks by itself, or
//	                          the fault does not pass, it stays and tries again after park_after
//	the workers are busy      workers move a limited number of snapshots at a time; the session waits
//	it cannot come up         it waits out a passing fault without limit. If a host cannot be reached,
//	                          it tries another one (at most 3), unless it is pinned to that host or
//	                          a person named it. An interrupt ends the attempts. After a fault that
//	                          does not pass it parks again; a message or resume tries again
//
// # A lost host
//
// A host is lost when a turn's pump, or the activity that ends a former process of codex,
// could not reach it for lost_after (5 minutes, long enough for a reboot). Then
// on_host_lost decides:
//
//	wait  the default, because the turn may still run there. The session goes on
//	      when the host is back, or elsewhere on resume.
//	move  the turn is cut off as if its process had died (on_interrupt then
//	      decides, decisions are kept), and the session goes on on another host
//	      from its newest good snapshot, as a new attempt. If the thread had turns
//	      and there is no snapshot, it waits.
//
// The session records what was read on the lost host. A turn is then interrupted if codex
// is known to have its message, and unknown if not. It is also interrupted if its end was
// read but no snapshot was taken after it: its answer is shown, and its error (host_lost)
// says that its work is not kept.
//
// The pool ends the processes that still run on the old host, and does not grant that host
// to the session before. The session gives back the seed and says that the credential may
// still be there. A login that rotates is first fetched from the old host (or given up with
// `ctl seed revive`). One message, which begins no turn, tells codex once about the move,
// the turn of the snapshot, and that later work may be missing.
//
// # How far a message came
//
// The states are queued (its turn has not begun), decided, sent, acknowledged, rejected
// (codex refused it) and void; see docs/reference/glossary.md. A budget is acknowledged
// when a pump has worked with it.
//
// A pump reports these states when it returns. If it returns no result, its messages stay
// "sent" until the next pump has read the journal. Only then is a message sent again, if it
// is not known to have been written.
//
// # When codex's process dies
//
// The session says how the process ended, what is certain and what is not. Unanswered
// requests are void. Commands that the process left running are ended at once. A message
// that certainly never reached codex goes to the next process. Any other turn becomes
// interrupted, or unknown if codex may or may not have had its message. Then on_interrupt
// decides:
//
//	ask       the state is interrupted, and the queue waits for the next message
//	continue  a new process resumes the thread, and a turn of the session's own
//	          (message <id>.c<n>) tells codex to go on: at most 3 such turns in a row
//	          that codex does not end itself. If it is unknown whether codex had the
//	          message, a pump first looks into the thread's history. If that cannot be
//	          read, the session waits for a person.
//	fail      the session closes as failed; all is saved and cleaned up
//
// A turn is not continued if somebody wanted to end it (interrupt, close, a decision to
// cancel), if it reached its timeout, or if the budget is spent. A thread is resumed by its
// id with its former sandbox or profile, approval policy, cwd, model and effort. If that
// fails, the session stops and says so.
//
// A decision that had no visible effect is lost with the process; see earlier.go.
//
// # Answers
//
// decide.go checks the answers or the grant of a decision against the request, and the pump
// checks them again. A secret answer is not part of a message: the worker's API checks it
// and writes it encrypted into the store, and the decision names the blob. From then on
// claims say that codex got secret answers, so that every activity redacts them. The next
// pump deletes the answers of void requests (Forget), and closing deletes all others.
//
// # Child sessions
//
// The agent starts sessions and waits for them by tools (children.go). A pump reports each
// call as a request, and the workflow answers it: it starts a child as it starts a
// follow-up, or answers once the children have ended or the time is over. Until then the
// session waits, without a pump. A child that ends sends session_ended. When the session
// ends, it closes the children that go on, unless they are to be kept. An interrupt, and
// the end of codex's process, end the waits only.
//
// # Bounds
//
// All that a session carries fits into one Temporal payload (2 MiB): 1000 queued messages,
// 768 KiB of their text, 256 KiB for one, the last 10 turns and 40 approvals, the decisions
// on 100 requests that were lost with a process. A run with a long history continues as
// new, between any two steps, also while a turn runs. No accepted message is lost or sent
// twice.
package session
