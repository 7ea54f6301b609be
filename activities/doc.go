// Package activities does what workflows decide: on hosts, in the store, in a
// conversation with codex. It remembers nothing that matters; whatever it did
// can be found again on the host or in the store.
//
// The nouns: a Set is what one worker registers; its families are Hosts (what
// belongs to no session), Sessions (one session on its host), Seeds, Snapshots
// and Engine. A Claim says for whom something is done on a host; with the attempt
// of the activity it becomes the epoch that the host compares.
//
// Promises:
//
//   - every activity may be run again, also while an older attempt still runs
//     elsewhere: the same result, or an error that says what is in the way;
//   - what fails leaves nothing half done, and no credential, on the host;
//     where the host cannot be reached the error says what stays there;
//   - nothing is removed from a host before what must last is in the store;
//   - every error is an ApplicationError of a type in errors.go, whose details
//     hold one Problem: a sentence of what failed and one of what to do;
//   - known secrets of the session's seed are taken out of everything that is
//     stored, published, or returned to a workflow.
//
// While a session waits for a person, nothing of ours is attached to its
// process. The pump that returned left a watch on the host, and WatchHost, one
// for a host, looks after all of them in one round trip from time to time: who
// ended, or wrote a line that matters, has its session told.
//
// A pump also gives back what the host keeps of a journal that no pump will read
// again, so a session of months takes a few megabytes there; where a host cannot
// do that, the workflow changes to a new process between two turns.
//
// # Logins that rotate
//
// The refresh token of a ChatGPT login can be used once: what codex makes of it
// on a host is the only good copy, until it is in the store and the seed's
// workflow counts it. A caller may rely on this:
//
//   - auth.json is looked at before a pump listens to codex, every eight seconds
//     beside the conversation, behind a conversation before its result is
//     returned, whenever codex is stopped, and before anything is wiped; while a
//     session waits or is idle and nothing is attached, its host's WatchHost
//     compares two times on the host every eight seconds or so, and reads what
//     has changed; a WatchHost whose worker dies is missed after ten;
//   - only a valid, later login of the same account becomes the next generation,
//     and only by compare and set on the generation it was made of and the epoch
//     of the lease: from who lost the lease nothing is taken (ErrTypeSeedFenced,
//     RunPumpResult.SeedLost: a pump that finds it calls its turn back, and the
//     session stops codex and fails, saying why). A half-written file is read again, a logged-out
//     one changes nothing, one of another account is refused and told;
//   - the seed is marked as rotated before the blob is written, with the reason
//     when that fails, and the blob is read back before the pointer moves. A kill
//     between any two steps loses nothing, and whoever looks next goes on;
//   - a turn's result waits ten seconds at most for it, and is returned anyhow;
//   - nothing that is not saved is wiped: PrepareSession, CloseSession and
//     RecoverSeed fail instead and leave it there. CloseSession with Discard gives
//     up what cannot be saved, and only that, and says Unsaved;
//   - a token that codex has just rotated is hidden like the planted one, and
//     those of former generations are hidden as well: auth.json is looked at
//     before a finished item or a request is folded, so before it is stored,
//     shown or handed to a workflow. That costs a round trip for each, none for
//     what had come before the last look. What remains open: pieces of a text
//     that streams, which are stored nowhere, may show such a token to whoever
//     watches live for two seconds; a host that does not answer such a look
//     within five seconds is not waited for, which is logged; a token that was
//     rotated away again between two looks, and one that a command changed
//     before it printed it (reversed, in pieces), are not known as such.
//
// RefreshSeed saves before anything is used: that a token is about to be used is
// in the store before the request, and the new login before the activity ends.
// An attempt that follows a killed one finds the answer, or says "lost".
//
// RecoverSeed is for a lease whose holder has ended without all this.
//
// # Going on elsewhere
//
// A session's folder on a host says whose it is (the file "generation"): for
// which generation of the session it was made, what was planted, and, once the
// session was parked, which snapshot holds it. A caller may rely on this:
//
//   - PrepareSession works in a folder that its own generation has prepared, in
//     the one where the session was parked as RestoreSpec says, if nothing has
//     run there since, or in a fresh one. What a former generation left in its
//     place is ended, its login saved back, what no snapshot has kept as one of
//     its own (Left), and then removed. So no codex ever finds an older rollout
//     under a newer index;
//   - a restored work folder is always the session's own, never a person's; in what
//     it is not as it was, by what the policy leaves out, say, is in Differs;
//   - ParkSession and CloseSession wipe nothing before the snapshot is complete
//     and read back, and come to the same end from any step. WipeLeftover keeps
//     what it finds before it removes it; what is too large to be kept stays;
//   - what the host does not let us read is in no snapshot: as long as that is so
//     of something that would go (ErrTypeUnreadable), nothing of a session's work
//     is removed, unless a person discards it. TakeSnapshot keeps the rest and
//     says what it lacks;
//   - who cleans up behind a generation (WipeLeftover, RecoverSeed) is above that
//     one to the host, and below every later one: a session that is back is left
//     alone, and is not kept away;
//   - FindLeftovers changes nothing on a host. Whose a folder is it asks after it
//     saw it, and what is not known to be ours it only names;
//   - PruneSnapshots drops nothing that an open session goes on from, nor what a
//     fork is to begin with, which PinSnapshot keeps for it: it asks them. Of who
//     does not answer nothing is dropped (Unasked);
//   - snapshots are masked with what every generation of the seed held, and with
//     what codex has just made of the login;
//   - a worker takes four snapshots at once, and two of one host, whatever they
//     are taken for (an end, and what was left somewhere, too), and restores as
//     many; some wait for their turn, all others are told ErrTypeBusy and come
//     again: who asked for it goes on doing so when the attempts of his policy are
//     used up, and nothing is given up for want of room, with Discard neither;
//   - what a pump had read when its wire was lost is not lost with it: its entries
//     are in the store, and what else it knew, for RecordLost to bring together;
//   - RunPump returns HostLost once the host did not answer for LostAfter: since
//     when is in its heartbeat (OutOfReach), whichever worker tried.
//
// What is kept in the store:
//
//	transcripts/<session>/<first seq>-<generation>.<pump>.<part>   JSON lines of Entry
//	requests/<session>/<digest>                                    a Request with nothing cut
//	diffs/<session>/<turn>-<incarnation>.<offset>                  the TurnDiff of a turn, as of there; the newest counts, and the others go
//	owned/<kind>.<id>.<occasion>/<family>/<name>                   what messages, batches and schedules name: see internal/owned
//	answers/<session>/<digest>-<random>                            secret answers to one, until codex has them
//	told/<session>/<digest>-<random>                               the same, to hide them until the session is closed
//	heard/<session>                                                what its newest pump knew when its wire was lost; until the session comes up again, or ends
//	deliverables/<session>/calls/<call>                            what became of a call of deliver: a Deliverable, or why not
//	deliverables/<session>/content/<name>                          what was delivered, each content once
//	exec/<id>/<stream>-<offset>                                    raw output
//	exec/<id>/end                                                  an ExecResult
//	snapshot-pins/<snapshot>/<session>.<run>                       that a fork is to begin with it
//	refreshes/<seed>/<digest of auth.json>                         that its refresh token was about to be used
package activities
