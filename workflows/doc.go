// Package workflows holds the truth about sessions, hosts and seeds, and
// decides what happens next. Activities do it; hosts keep the bytes.
//
// The nouns: a Session is one durable conversation and the only owner of its
// codex process; a HostPool is the inventory of a zone and hands out slots; a
// Seed names the newest generation of a credential and who holds it; a SeedPool
// stands for any healthy one out of several; host
// tasks (check, provision, exec, capture and login of a seed) are short, so that
// they are on record; Maintenance, by Schedules, does what nobody asks for.
// A Batch runs many sessions from one file, a window of them at a time, and
// accounts for each of them.
// Fire is what a person's Schedule starts: it begins a session and stays until that
// has ended, so that what still runs is known, and closes it where it is cancelled.
//
// # The life of a session
//
//	queued → preparing → starting → idle ⇄ running ⇄ waiting → closing → closed
//	                          resuming    (codex is started again, or a host is got again)
//	                          parked      (it holds nothing; a message brings it back)
//	                          interrupted (a turn was cut off, or codex cannot go on; a message tries again)
//	                          failed      (it could not begin, the host will not have us, or it was to fail)
//
// While a turn runs, one activity (the pump) is attached to codex's journal.
// While codex waits for a person, nothing is: no activity, no channel. One
// activity for the whole host, which its pool keeps going while the host has
// sessions, looks at all such processes from time to time. The session to whose
// process something happened gets a signal, stirred, and looks what it was with
// a pump; to all others it costs nothing.
//
// # Which message may come when
//
// Signals and updates of the same name take the same JSON. A refused update
// costs no event; a refused signal is kept in Refusals. "ends" is closing,
// closed or failed. A worker that dies on the way changes no line of this.
//
//	message (queue)   any state but ends      → queued, answered with its turn number
//	                  same id, same text      → the first answer again, also while closing
//	                  same id, other text     → refused
//	                  the budget is spent     → refused
//	                  ends                    → refused
//	message (steer)   running, waiting, and resuming with a turn that never began
//	                                          → goes into the running turn, or becomes a turn
//	                                            of its own if that one ends first; void in its
//	                                            place if it names the turn
//	                  another turn than it names runs, or a compaction or review → refused
//	                  any other               → refused
//	message (do)      as message (queue); compact before the first turn → refused
//	unsend            it is queued            → its turn never begins, and keeps its number
//	                  it has begun, or was taken back → refused; unknown → not found
//	set               any state but ends      → model and effort hold from the next turn on, the name
//	                                            at once; what codex does not list → refused, or told
//	                                            once it is up, where it was not yet
//	                  ends                    → refused
//	models            any state but ends      → codex is asked if nobody did, and nothing runs
//	archive           idle, interrupted, parked, with no message queued → it parks, and takes no
//	                                            message and no resume until unarchive
//	                  any other               → refused
//	unarchive         archived                → as any parked one; else refused
//	decide            approval open, digest equal, outcome offered, what it brings fits → decided
//	                  decided, expired, void  → refused; of a void one it is said why it is void
//	                  unknown approval        → not found
//	                  ends                    → refused
//	interrupt         waiting for the end of a limit (on_limit) → the wait ends, what is queued goes on
//	                  running, waiting, and resuming with a turn that never began
//	                                          → the turn is interrupted, also before codex acknowledged it;
//	                                            again: asked again; a turn that ends first has ended as it did
//	                  any other               → refused
//	budget            any state but ends      → holds at once; a running pump is called back for it
//	                  ends                    → refused
//	snapshot          there is work on a host: idle, running, waiting, interrupted, resuming
//	                                          → one is taken beside what goes on, answered with its number
//	                  parked (it has one), no turn yet, it takes none → refused
//	park              idle, interrupted, waiting for the end of a limit → all is kept, host and seed are given back
//	                  parked                  → so it is
//	                  any other               → refused
//	resume            parked; resuming while it waits for a host
//	                                          → it comes up: on the host that is named, else rather where it was
//	                  idle, interrupted, another host is named → it parks, and comes up there
//	                  running on a lost host, or resuming there, with a snapshot → it goes on elsewhere
//	                  any other               → refused
//	close             any state but ends      → the turn is interrupted, then all is saved, wiped and given back;
//	                                            a decision in flight is delivered first, what is open is void
//	                  parked                  → its folder is removed, for which it needs no slot; where the
//	                                            host is away, its pool does that later
//	                  closing, failed; with discard → what cannot be saved is given up
//	                  closing, failed; without      → refused
//	leave (from a pool)  its host is drained → no further turn begins there: it parks, or goes on elsewhere
//	stirred (from a   waiting, of this process and beyond what is known of it → a pump looks;
//	watch)            while a pump is attached, of another process, any other state → nothing
//	any               closed, or failed and cleaned up → refused by Temporal: the workflow has ended
//
// What cannot be cleaned up on a host stays, and is tried again, until it can
// or somebody says discard; seed and slot are held so long.
//
// # Snapshots
//
// One is taken after each turn (or only when the session parks or closes), when
// somebody asks for one, and every so often within a long turn if that is
// wanted, though not while the turn waits for a person. Neither an answer nor
// the next turn waits for it. One is taken at a time; who wants one meanwhile
// shares the next. One that fails is on view and in the transcript, hides none
// that is good, and is tried again with the next turn. Which one is good is the
// session's to say: whatever else is in the store is not gone on from. A
// rollover calls back one that is being taken, and the next run takes the same.
// What a fork begins with is pinned before it asks for a host.
//
// # Parking
//
// A session that is idle or interrupted parks when it is told to, or when nobody
// wanted anything of it for park_after. Not while a turn runs or waits. Codex is
// stopped, its login saved, a snapshot taken, the credential wiped; then, and
// only then, seed and slot are given back. The folder stays. The host's pool
// remembers it without a slot, prefers that host when the session comes back,
// and cleans up where that goes on elsewhere or its workflow ends.
//
//	a message while it parks  parking is called back and the session goes on where it is; what is
//	                          left of codex is ended first, and the credential brought again
//	a close while it parks    the same, and it closes
//	parking fails             it stays where it is, says why, and tries again after park_after
//	there is no room for it   however many come back or park at once: it stands in line for workers
//	                          that move as many snapshots as they can, and says so
//	it cannot come up         it is parked again and says why; a message or resume tries again.
//	                          A host that cannot be reached is left for another one (at most 3)
//	                          unless the session was to be on that one
//
// # A lost host
//
// A host is lost once a turn's pump, or who ends the former codex before the next
// is started, could not reach it for lost_after (5 minutes: as long as a machine
// takes to be started again). Then on_host_lost decides:
//
//	wait  the default: the turn may run on there, and nothing tells whether it
//	      does. The session shows the host and since when, and how resume has it
//	      go on elsewhere. It goes on by itself when the host is back.
//	move  the turn is cut off, as if its process had died (on_interrupt then
//	      decides, decisions are kept), and the session goes on on another host
//	      from its newest good snapshot. That is a new attempt, on view.
//
// What was heard on the lost host before it went is put on record first: what a
// person had said, with how far it is known to have come, and what codex had
// begun to answer. So a turn is interrupted of which it was heard that codex has
// the message, and unknown where nobody heard that. A turn whose end was heard,
// and told too late for a snapshot, is interrupted as well: its answer is shown,
// and its error (host_lost) says that its work is not kept.
//
// It waits in any case as long as there is nothing to go on from: a thread that
// had turns, and no snapshot. The old host's slot is given back with what is left
// there, so that its pool ends what still runs there and the session never gets
// that host again before. The seed is given back as one whose credential may be
// there: an API key is there at once, of a pool of logins another one is granted,
// and a login that rotates is fetched from the old host first (or given up with
// `ctl seed revive`). Codex is told once, in one message that begins no turn, from
// where to where it was moved, from which turn's end, and that what came after
// may be missing. What it is to go on with (on_interrupt continue) is said again
// unless the snapshot has it: there is no history to ask whether it had effects.
//
// # What is left on a lost host
//
// A session that was given up while its host was away, or whose workflow was
// terminated, may have left its credential there. Its pool keeps a Leftover of
// it, with what the session said of itself, and tries to wipe it: at once, with
// every look after the holders (five minutes), and when a check, a provision or
// the host's watch says that the host is back. The proof (when it was looked at,
// what was removed, what stays) is kept. A login that the seed still waits for
// is left to the seed's own recovery, which goes first. Work is removed only
// where somebody said discard, or its archive is in the store. A new session of
// the old one's name gets the host only when that is done; a host with
// leftovers leaves the inventory only by force.
//
// What a pool has forgotten (a host was taken out by force, and came back; its
// workflow was begun anew) a Schedule of each zone finds, since it looks at the hosts
// themselves. A folder is a leftover if Temporal knows that a session of that name
// has ended, which ran when the folder's generation began, if the pool knows
// nothing of it, and if nobody has written its mark for a while. The pool decides:
// what it has come to know of since the look is left alone. Everything else is
// named (UnknownFolder) and never touched: it may be of another installation.
//
// # Who gets a slot
//
// Whoever asks the pool of a zone stands in a line (the type of that name, which
// knows nothing of Temporal). What no host can ever meet, cordoned and broken ones
// included, is refused at once; a host that was never probed may meet whatever a
// probe finds. Among the rest:
//
//	priority    1 first, 5 last; about one slot in ten is given without regard to it,
//	            one in a hundred to who has waited longest of all, so that nobody starves
//	tenants     each that wants slots is entitled to a share of all there are, by its
//	            weight; who has less comes first, odd slots go round, what one does
//	            not want the others get
//	limits      of slots that a tenant has, or that use a seed, at a time
//	a pause     nobody gets anything, also who comes back from parking
//
// One who waits hears at once what for; then when it has come an order of
// magnitude nearer, when the zone is paused or resumed, and at the head of the line
// whenever the reason changes. So a grant costs a few letters, however long the
// line is; the exact places are in the pool's view.
//
// # Who has a seed
//
// A login that rotates has one holder at a time, any other as many as its share
// says. Leases are given in the order of asking; each has an epoch of its own,
// and what comes under an older one changes nothing.
//
//	free        the next in line gets it
//	held        one that rotates: who asks waits; save_seed and rotated_seed are
//	            compared with (generation, epoch) of the lease
//	rotated     codex made a login that is not saved: nobody else gets it before
//	recovering  its holder ended, or gave it back and could not show that all is
//	            saved and gone: RecoverSeed brings from the host what codex made of
//	            the login, for as long as it takes, before anybody else gets it
//	suspect     codex could not log in with it, or a rotated login is lost: who asks
//	            waits and is told what to do. A turn that begins later and succeeds, a
//	            verification, revive_seed or an import ends it.
//	dead        its issuer says so: who asks is refused
//
// Whether a holder lives is looked at (every five minutes, and when somebody has
// to wait), not concluded from a clock. A copy of what others have too, an API
// key, needs no recovery; that it is wiped is seen to by the pool of its host.
//
// A SeedPool holds no lease. It keeps its line and asks the free, healthy seed
// that was used least recently to grant its use to the first in line, now or
// not at all: so a seed that is taken directly meanwhile is in nobody's way.
//
// # How far a message came
//
//	queued        its turn has not begun
//	decided       it is on record here, and not known to have been written to codex
//	sent          it was written, or may have been
//	acknowledged  codex has it (a budget: a pump has worked with it)
//	rejected      codex would not have it
//	void          what it was for is gone, and it was certainly not written
//
// A pump tells when it returns; one that brings no result leaves its messages
// "sent" until the next one has looked into the journal. What is not known to
// have been written is sent again only after that.
//
// # When codex's process dies
//
// Whether it was killed, ran out of memory, went with its host or lost its
// journal: the session says what it knows of the end, what is certain and what
// is not. Requests that nobody answered are void, with the reason. What the
// process left running on the host is ended at once. A message that certainly
// never reached codex goes to the next process. Any other turn is interrupted,
// or unknown where it cannot be told whether codex had its message, and the
// session's on_interrupt decides:
//
//	ask       the state is interrupted; the queue waits, too, for the next message
//	continue  a new process resumes the thread and a turn of the session's own
//	          (message <id>.c<n>) tells codex to go on: at most 3 in a row without
//	          a turn that codex ended. Where it is unknown whether codex had the
//	          message, the thread's history is asked first: if it has it, the turn
//	          was cut off and is continued; if not, the message is delivered; if it
//	          cannot be read, the session asks a person.
//	fail      the session closes as failed; all is saved and cleaned up
//
// Nothing is continued that somebody wanted to end (interrupt, close, a decision
// to cancel), that took longer than its turn may, or that has spent the budget.
// A thread is resumed by its id with the sandbox or profile, approval policy, cwd,
// model and effort that it had. If that cannot be, the session stops and says so.
//
// A decision dies with the process as well. earlier.go says what it means when
// codex asks for the same again; that it was asked for before is always said.
//
// # Answers
//
// A decision brings what its outcome needs: answers to the questions, or a part
// of the permissions asked for. decide.go holds it to what was asked, for an
// update before it costs an event; the pump does so again. A secret answer is no
// part of a message: the worker's API seals it into the store once it fits, and
// the decision names the blob, whose name is of the session and of the request's
// digest. From then on claims say that codex was told secrets, so that every
// activity hides them. What is void is forgotten by the next pump (Forget), and
// closing deletes the rest.
//
// # Bounds
//
// All that a session carries fits into one value of Temporal's (2 MiB): 1000
// queued messages, 768 KiB of their text, 256 KiB for one, the last 10 turns
// and 40 approvals, the decisions on 100 asks that a process took with it. A run
// goes over into the next one when its history is long, between any two steps,
// also while a turn runs; nothing that was taken is lost or done twice.
//
// # Changes
//
// Nothing was released yet, so what changes the commands of a workflow has its
// histories (testdata/replay) recorded anew, by `make record`; from the first
// release on it stands behind workflow.GetVersion, and the histories of before
// stay beside the new ones.
//
// # Events
//
// A plain turn costs 13 events when it comes by update (12 by signal): update
// 2, workflow task 3, attributes 1, pump 3, workflow task 3, attributes 1. An
// approval adds 14 when it is decided by update (13 by signal): pump 3, task 3,
// timer 2, update 2, task 3, attributes 1 of the two. A host with sessions costs
// its pool one event, and six when they are long gone. A snapshot adds 6:
// activity 3, task 3. Of timers there are at most four, each re-armed: for
// approvals, for an idle session, for snapshots within a turn, for the end of a
// limit.
package workflows
