// Package workflows holds the state of sessions, hosts and seeds, and decides
// what happens next. Activities carry it out; hosts keep the data.
//
// A Session is one durable conversation and the only owner of its codex process.
// A HostPool is the inventory of a zone and grants slots. A Seed names the newest
// generation of a credential and its holders. A SeedPool stands for any healthy
// one of several seeds. Host tasks (check, provision, exec, capture and login of
// a seed) are short workflows, so that they are on record. Maintenance runs
// periodic chores, started by Schedules. A Batch runs many sessions from one
// file, a window of them at a time, and accounts for each of them. Fire is what a
// person's Schedule starts: it begins a session and runs until that session has
// ended, so that running sessions are known. If Fire is cancelled, it closes the
// session.
//
// Comments cite promises by the numbers of docs/explanation/guarantees.md.
//
// # The life of a session
//
//	queued → preparing → starting → idle ⇄ running ⇄ waiting → closing → closed
//	                          resuming    (codex is restarted, or a host is acquired again)
//	                          parked      (it holds nothing; a message brings it back)
//	                          interrupted (a turn was cut off, or codex cannot go on; a message tries again)
//	                          failed      (it could not begin, the host rejects us, or its policy was to fail;
//	                                       passing faults, and those of one worker, are waited out on view)
//
// While a turn runs, one activity (the pump) is attached to codex's journal.
// While codex waits for a person, no activity and no channel is open. Instead, one
// activity for the whole host looks at all such processes from time to time; the
// pool keeps it running while the host has sessions. If something happened to a
// process, its session gets the signal stirred and starts a pump to look. Other
// sessions pay nothing.
//
// # Which message may come when
//
// Signals and updates of the same name take the same JSON. A refused update
// costs no event; a refused signal is kept in Refusals. "ends" means closing,
// closed or failed. The death of a worker changes nothing in this table.
//
//	message (queue)   any state but ends      → queued, answered with its turn number
//	                  same id, same text      → the first answer again, also while closing
//	                  same id, other text     → refused
//	                  the budget is spent     → refused
//	                  ends                    → refused
//	message (steer)   running, waiting, and resuming with a turn that never began
//	                                          → goes into the running turn. If that ends first, it becomes a
//	                                            turn of its own, or is void if it names the turn
//	                  it names another turn than the running one, or a compaction or review runs → refused
//	                  any other               → refused
//	message (do)      as message (queue); compact before the first turn → refused
//	unsend            it is queued            → its turn never begins, and keeps its number
//	                  it has begun, or was taken back → refused; unknown → not found
//	set               any state but ends      → model and effort apply from the next turn on, the name
//	                                            at once; a model that codex does not list is refused, or
//	                                            reported later if codex was not up yet
//	                  ends                    → refused
//	models            any state but ends      → codex is asked if nobody has asked yet and nothing runs
//	archive           idle, interrupted, parked, with no message queued → it parks, and takes no
//	                                            message and no resume until unarchive
//	                  any other               → refused
//	unarchive         archived                → as any parked one; else refused
//	decide            approval open, digest equal, outcome offered, its answers or grant fit → decided
//	                  decided, expired, void  → refused; for void the reason is given
//	                  unknown approval        → not found
//	                  ends                    → refused
//	interrupt         waiting for the end of a limit (on_limit) → the wait ends, the queue goes on
//	                  running, waiting, and resuming with a turn that never began
//	                                          → the turn is interrupted, even before codex acknowledged it,
//	                                            and at once if the session waits to start codex;
//	                                            again: asked again; a turn that ends first keeps its own end
//	                  waiting to park or to move → it stays, and the queue goes on
//	                  any other               → refused
//	budget            any state but ends      → applies at once; a running pump is called back for it
//	                  ends                    → refused
//	snapshot          it has work on a host: idle, running, waiting, interrupted, resuming
//	                                          → one is taken concurrently, answered with its number
//	                  parked (it has one), no turn yet, snapshots are off → refused
//	park              idle, interrupted, waiting for the end of a limit → all is saved, host and seed are given back
//	                  parked                  → no change
//	                  any other               → refused
//	                  resuming, between two attempts to come back
//	                                          → it parks again, with its queue
//	resume            preparing or resuming, between two attempts
//	                                          → it tries at once, on the named host if it has none yet
//	                  parked; resuming while it waits for a host
//	                                          → it comes up on the named host, else preferably where it was
//	                  idle, interrupted, another host is named → it parks, and comes up there; passing
//	                                            faults in parking are waited out
//	                  running on a lost host, or resuming there, with a snapshot → it goes on elsewhere
//	                  any other               → refused
//	close             any state but ends      → the turn is interrupted, then all is saved, wiped and given back;
//	                                            a decision in flight is delivered first, open approvals are void
//	                  parked                  → its folder is removed, which needs no slot; if the
//	                                            host is away, its pool does that later
//	                  closing, failed; with discard → what cannot be saved is given up
//	                  closing, failed; without      → refused
//	leave (from a pool)  its host is drained → no further turn begins there: it parks, or goes on elsewhere
//	stirred (from a   waiting, about this process and with news → a pump looks;
//	watch)            while a pump is attached, about another process, any other state → nothing
//	any               closed, or failed and cleaned up → refused by Temporal: the workflow has ended
//
// A session with close_after closes after the last message that it accepted, even
// if an earlier turn was cut off, failed or was interrupted: nobody is there to
// release the queue. With on_interrupt fail it fails at once.
//
// If a host knows a newer holder of the session (fenced), the session leaves the
// host alone and parks with its queue. It comes back with a higher epoch when a
// person sends a message or resume.
//
// Cleaning up on a host is retried until it succeeds or somebody says discard; the
// seed and the slot are held until then. A session with close_after or notify does
// not wait for a host that cannot be reached for three minutes: it ends, the pool
// takes over what is on the host, and the seed recovers the login. In any case a
// batch or the firing of a schedule is told of the end when the session could not
// clean up at the first attempt, or could not read its turn to the end, and goes
// on. It is then unknown how that turn ended.
//
// Closing gives codex 15 seconds to end a turn. After that it stops codex and
// reads the journal to its end before that is deleted, however long the host is
// away. Only discard gives up the unread rest. Then what pumps had read is on
// record, and also that the rest is not.
//
// # What passes is waited out
//
// An accepted message is kept. When a session begins, comes back, moves or starts
// codex for a turn, it waits out a passing fault (see the table at failurePasses).
// After the activity's own few attempts it pauses, on view as waiting_for, first
// for 5 seconds, finally for 5 minutes. The state does not change. The wait ends
// when an attempt succeeds, when a person ends it, or, if the session could never
// begin a turn, by start_timeout. A rollover carries the wait along.
//
// # Snapshots
//
// A snapshot is taken after each turn (or only when the session parks or closes),
// on request, and optionally at intervals within a long turn, but not while the
// turn waits for a person. Neither an answer nor the next turn waits for it. One is
// taken at a time; requests made meanwhile share the next one. A failed snapshot is
// on view and in the transcript, and hides no good one. It is retried with the next
// turn and, if that may help, while the session idles, first after a minute,
// finally every hour. The session alone says which snapshot is good: it never
// continues from anything else in the store. A rollover calls back a snapshot in
// progress, and the next run takes the same one. The snapshot that a fork begins
// with is pinned before the fork asks for a host.
//
// # Parking
//
// An idle or interrupted session parks on request, or when nobody wanted anything
// of it for park_after, but not while a turn runs or waits. Codex is stopped, its
// login saved, a snapshot taken and the credential wiped; only then are seed and
// slot given back. The folder stays. The host's pool remembers it without a slot,
// prefers that host when the session comes back, and removes the folder if the
// session goes on elsewhere or its workflow ends.
//
//	a message while it parks  parking is called back and the session goes on where it is; what is
//	                          left of codex is ended first, and the credential planted again
//	a close while it parks    the same, and it closes
//	parking fails             if it was told to park or to move, it waits out a passing fault, on
//	                          view, and retries without limit; a message ends the wait to park, an
//	                          interrupt calls off either, and resume retries at once. If it parks
//	                          by itself, or cannot park, it stays where it is, says why, and
//	                          tries again after park_after
//	there is no room for it   however many come back or park at once: it stands in line for the
//	                          workers, which move a limited number of snapshots, and says so
//	it cannot come up         a passing fault is waited out, on view, and retried without limit.
//	                          Each attempt leaves a host that cannot be reached for another one
//	                          (at most 3), unless the session is pinned to that host or a person
//	                          named it. An interrupt calls it off. Else it is parked again and
//	                          says why; a message or resume tries again
//
// # A lost host
//
// A host is lost once a turn's pump, or the activity that ends the former codex
// before the next is started, could not reach it for lost_after (5 minutes: long
// enough for a reboot). Then on_host_lost decides:
//
//	wait  the default: the turn may still run there, and nothing can tell. The
//	      session shows the host, since when it is lost, and that resume lets it
//	      go on elsewhere. It goes on by itself when the host is back.
//	move  the turn is cut off as if its process had died (on_interrupt then
//	      decides, decisions are kept), and the session goes on on another host
//	      from its newest good snapshot. That is a new attempt, on view.
//
// First, what was read on the lost host is put on record: a person's messages, with
// how far they are known to have come, and the beginning of codex's answer. So a
// turn is interrupted if codex is known to have its message, and unknown if not. A
// turn whose end was read too late for a snapshot is interrupted as well: its
// answer is shown, and its error (host_lost) says that its work is not kept.
//
// The session waits in any case while there is nothing to go on from: the thread
// had turns, and there is no snapshot. The old host's slot is given back together
// with what is left there, so that the pool ends what still runs there and the
// session does not get that host again before. The seed is given back as one whose
// credential may be there: an API key is available at once, a pool of logins grants
// another one, and a login that rotates is first fetched from the old host (or
// given up with `ctl seed revive`). Codex is told once, in one message that begins
// no turn, from where to where it was moved, as of which turn's end, and that later
// work may be missing. A follow-up message (on_interrupt continue) repeats the task
// unless the snapshot has it: there is no history to ask whether it had effects.
//
// # What is left on a lost host
//
// A session that was given up while its host was away, or whose workflow was
// terminated, may have left its credential there. The pool keeps a Leftover of
// it, with what the session reported, and tries to wipe it: at once, with every
// check for ended holders (five minutes), and when a check, a provision or the
// host's watch says that the host is back. The proof (when it was looked at, what
// was removed, what stays) is kept. A login that the seed still waits for is left
// to the seed's own recovery, which goes first. Work is removed only if somebody
// said discard, or its archive is in the store. A new session of the same name gets
// the host only after that; a host with leftovers leaves the inventory only by
// force.
//
// A pool can forget leftovers: a host was removed by force and came back, or the
// pool's workflow was begun anew. A Schedule of each zone finds them by looking at
// the hosts. A folder is a leftover if Temporal knows that a session of that name,
// which ran when the folder's generation began, has ended, if the pool does not
// know the folder, and if its mark was not written for a while. The pool decides,
// and leaves alone what it has learnt of since the look. Everything else is named
// (UnknownFolder) and never touched: it may belong to another installation.
//
// # Who gets a slot
//
// Requests to a zone's pool stand in a line (the type line, which knows nothing of
// Temporal). A request that no host can ever meet, including cordoned and broken
// ones, is refused at once; a host that was never probed may meet whatever a probe
// can find. Among the rest:
//
//	priority    1 first, 5 last; about one slot in ten is given without regard to it,
//	            one in a hundred to the longest waiting request, so that none starves
//	tenants     each tenant that wants slots is entitled to a share of all slots, by
//	            its weight; the one with less of its share comes first, odd slots go
//	            round, and the others get what one does not want
//	limits      on the slots of a tenant, or of the users of a seed, at a time
//	a pause     nothing is granted, not even to sessions that come back from parking
//
// A waiting session is told at once what it waits for; then when its place has come
// an order of magnitude nearer, when the zone is paused or resumed, and, at the head
// of the line, whenever the reason changes. So a grant costs few signals however
// long the line is; the exact places are in the pool's view. The session asks again
// after five minutes and then ever more rarely, finally every hour, so that it gets
// a place also in the line of a pool, or of a seed, that was terminated and begun
// anew. A full line refuses it for now and says when to ask again, which it does.
//
// A pool that begins without a former run asks the running sessions of its zone
// which slots they hold. It grants none before they have answered, or 30 seconds
// have passed.
//
// # Who has a seed
//
// A login that rotates has one holder at a time, any other seed as many as its
// share says. Leases are granted in the order of requests; each has an epoch of its
// own, and messages under an older epoch change nothing.
//
//	free        the next in line gets it
//	held        if it rotates, requests wait; save_seed and rotated_seed are
//	            compared with (generation, epoch) of the lease
//	rotated     codex made a login that is not saved: nobody else gets it before
//	recovering  its holder ended, or gave it back and could not show that all is
//	            saved and gone: RecoverSeed fetches from the host what codex made of
//	            the login, however long that takes, before anybody else gets it
//	suspect     codex could not log in with it, or a rotated login is lost: requests
//	            wait and are told what to do. A turn that begins later and succeeds,
//	            a verification, revive_seed or an import ends it.
//	dead        its issuer says so: requests are refused
//
// A seed's workflow that was terminated and begun anew does not know the leases
// that the former one granted. The login on a host under such a lease may be the
// only copy, so it is not wiped merely because its holder is unknown. The epoch of a
// lease says which workflow granted it. The login is saved once codex has ended
// there and nobody holds the seed, or fetched when its session asks for the seed
// again. It stays on the host until then. revive_seed gives it up.
//
// Whether a holder lives is checked (every five minutes, and when somebody has to
// wait), not concluded from a clock. An API key exists elsewhere too and needs no
// recovery; its host's pool makes sure that it is wiped.
//
// A SeedPool holds no lease. It keeps a line and asks the free, healthy seed that
// was used least recently to grant its use to the first in line, now or not at all.
// So it does not interfere with a seed that is requested directly meanwhile.
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
// A pump reports this when it returns. If it returns no result, its messages stay
// "sent" until the next pump has looked into the journal. Only then is a message
// sent again that is not known to have been written.
//
// # When codex's process dies
//
// Whether it was killed, ran out of memory, went with its host or lost its
// journal: the session says what it knows of the end, what is certain and what
// is not. Unanswered requests are void, with the reason. What the process left
// running on the host is ended at once. A message that certainly never reached
// codex goes to the next process. Any other turn is interrupted, or unknown if
// codex may or may not have had its message, and the session's on_interrupt
// decides:
//
//	ask       the state is interrupted; the queue, too, waits for the next message
//	continue  a new process resumes the thread, and a turn of the session's own
//	          (message <id>.c<n>) tells codex to go on: at most 3 in a row without
//	          a turn that codex ended. If it is unknown whether codex had the
//	          message, the thread's history is asked first: if it has the message,
//	          the turn was cut off and is continued; if not, the message is
//	          delivered; if the history cannot be read, the session asks a person.
//	fail      the session closes as failed; all is saved and cleaned up
//
// A turn is not continued if somebody wanted to end it (interrupt, close, a
// decision to cancel), if it reached its timeout, or if the budget is spent. A
// thread is resumed by its id with its former sandbox or profile, approval policy,
// cwd, model and effort. If that is impossible, the session stops and says so.
//
// A decision is lost with the process too. earlier.go says what it means when codex
// asks for the same again; the earlier decision is always shown.
//
// # Answers
//
// A decision carries what its outcome needs: answers to the questions, or a part
// of the requested permissions. decide.go checks it against the request, for an
// update before that costs an event; the pump checks again. A secret answer is not
// part of a message: the worker's API checks it and seals it into the store, and
// the decision names the blob, whose name contains the session and the request's
// digest. From then on claims say that codex was told secrets, so that every
// activity hides them. The next pump deletes the answers of void requests (Forget),
// and closing deletes the rest.
//
// # Bounds
//
// All that a session carries fits into one Temporal payload (2 MiB): 1000 queued
// messages, 768 KiB of their text, 256 KiB for one, the last 10 turns and 40
// approvals, the decisions on 100 asks that were lost with a process. A run
// continues as new when its history is long, between any two steps, also while a
// turn runs; nothing accepted is lost or done twice.
//
// # Changes
//
// Workflows outlive the program that began them, so each release has its recorded
// histories: testdata/replay/v0.1. Every build replays all of them, and also
// compares the payloads, which Temporal's replayer does not. While a release is
// open its histories are recorded anew (`make record`); `make freeze` closes it.
// From then on a change to the commands of a workflow needs workflow.GetVersion, and
// the next release has histories of its own beside the old ones
// (`make record RELEASE=v0.2`). A payload must keep what older releases put into it.
// More may be added.
//
// The names and shapes that running workflows and other programs rely on are
// listed in testdata/golden: a line there is changed only together with a version
// and a migration.
//
// # Events
//
// A plain turn costs 13 events when it comes by update (12 by signal): update
// 2, workflow task 3, attributes 1, pump 3, workflow task 3, attributes 1. An
// approval adds 14 when it is decided by update (13 by signal): pump 3, task 3,
// timer 2, update 2, task 3, attributes 1 of the two. A host with sessions costs
// its pool one event, and six when they are long gone. A snapshot adds 6:
// activity 3, task 3. There are at most four timers, each re-armed: for approvals,
// for an idle session, for snapshots within a turn, for the end of a limit.
package workflows
