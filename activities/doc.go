// Package activities has the activities by which workflows work on hosts, in the store,
// and in conversations with codex. It keeps no state that matters: whatever it did can be
// found again on the host or in the store.
//
// A Set is what one worker registers. Its families are Hosts (what belongs to no session),
// Sessions (one session on its host), Seeds, Snapshots, Batches and Engine. A Claim names
// the session for which something is done on a host; with the attempt of the activity it
// makes the epoch that the host compares.
//
// Promises:
//
//   - every activity may be run again, even while an older attempt still runs elsewhere:
//     it gives the same result, or an error that says what is in the way;
//   - a failure leaves nothing half done, and no credential, on the host; if the host cannot
//     be reached, the error says what stays there;
//   - nothing is removed from a host before what must last is in the store;
//   - every error, except those of Engine, is an ApplicationError of an ErrType, whose
//     details hold one Problem: a sentence of what failed and one of what to do;
//   - known secrets of the session's seed are taken out of everything that is stored,
//     published, or returned to a workflow.
//
// While a session waits for a person, no pump is attached to its process. The pump that
// returned left a watch on the host. WatchHost, one for each host, looks at all watches in
// one round trip from time to time, and tells a session when its process has ended or wrote
// a line that matters.
//
// A pump also trims the part of a journal that no pump will read again, so a session of
// months takes a few megabytes on its host. If a host cannot do that, the workflow changes
// to a new process between two turns.
//
// # Logins that rotate
//
// The refresh token of a ChatGPT login can be used once. What codex makes of it on a host is
// the only good copy until it is in the store and the seed's workflow counts it. A caller
// may rely on this:
//
//   - auth.json is looked at before a pump listens to codex, every eight seconds beside the
//     conversation, after it and before its result is returned, whenever codex is stopped,
//     and before anything is wiped. While a session waits or is idle, its host's WatchHost
//     compares two times on the host about every eight seconds, and reads what has changed;
//     a WatchHost whose worker dies is missed after ten seconds;
//   - only a valid, later login of the same account becomes the next generation, and only by
//     compare and set on the generation it was made of and the epoch of the lease. Nothing
//     is taken from a session that has lost the lease (ErrTypeSeedFenced,
//     RunPumpResult.SeedLost): a pump that finds this is cancelled, and the session
//     stops codex and asks for the seed again; PrepareSession saves what is there under the
//     new lease before codex is started. A half-written file is read again, a logged-out one
//     changes nothing, and one of another account is refused and told;
//   - the seed is marked as rotated before the blob is written, with the reason if that
//     fails, and the blob is read back before the pointer moves. A kill between any two
//     steps loses nothing, and the next look goes on;
//   - a turn's result waits at most ten seconds for this, and is returned in any case;
//   - nothing that is not saved is wiped: PrepareSession, CloseSession, WipeLeftover and
//     RecoverSeed fail instead and leave it there. If an earlier workflow of the seed granted
//     the lease (SeedNow.First), closing, parking and WipeLeftover save the login first. The
//     seed takes it only while nobody holds the seed. CloseSession with Discard gives up only
//     what cannot be saved, and says Unsaved;
//   - a token that codex has just rotated is hidden like the planted one, and so are those of
//     former generations: auth.json is looked at before a finished item or a request is
//     folded, so before it is stored, shown or handed to a workflow. That costs a round trip
//     for each, and none for what had come before the last look. What remains open: pieces of
//     a text that streams, which are stored nowhere, may show such a token to live viewers
//     for two seconds; a host that does not answer such a look within five seconds is not
//     waited for, which is logged; a token that was rotated away again between two looks, and
//     one that a command changed before it printed it (reversed, in pieces), are not known.
//
// RefreshSeed stores that a token is about to be used before it sends the request, and the
// new login before it ends. An attempt that follows a killed one finds the answer, or says
// "lost". RecoverSeed is for a lease whose holder has ended without all this.
//
// # Root folders
//
// After a reboot, the disk with a host's root folder may not be mounted yet. So the absence
// of a folder proves nothing, unless the root folder is there. PrepareSession gives the root
// folder an id (the file "root-id"), and the store records in which one a session was
// prepared. If that one is not there, every activity that would believe an absence fails
// with ErrTypeRootMissing and is tried again. The same holds if nobody can tell, because an
// earlier version prepared the session and nothing of ours is in the folder. PrepareSession
// makes no other root folder for a session that has something in one. CloseSession and
// WipeLeftover with Discard give up what a person discards, and do not say that it is wiped.
//
// # Going on elsewhere
//
// The file "generation" in a session's folder on a host says for which generation of the
// session the folder was made, what was planted, and, once the session was parked, which
// snapshot holds it. A caller may rely on this:
//
//   - PrepareSession works in a folder that its own generation has prepared, or in the one
//     where the session was parked as RestoreSpec says, if nothing has run there since, or in
//     a fresh one. It ends what a former generation left in that place, saves its login,
//     keeps what no snapshot has in a snapshot of its own (Left), and then removes it. So
//     codex never finds an older rollout under a newer index;
//   - a restored work folder is always the session's own, never a person's. Differs says how
//     it differs from what was kept, by what the policy leaves out, for instance;
//   - ParkSession and CloseSession wipe nothing before the snapshot is complete and read back,
//     and come to the same end from any step. WipeLeftover keeps what it finds before it
//     removes it; what is too large to be kept stays;
//   - what the host does not let us read is in no snapshot. As long as that would be removed
//     (ErrTypeUnreadable), nothing of a session's work is, unless a person discards it.
//     TakeSnapshot keeps the rest and says what it lacks;
//   - whoever cleans up behind a generation (WipeLeftover, RecoverSeed) has an epoch above
//     that generation and below every later one: a session that is back is left alone, and is
//     not fenced off;
//   - FindLeftovers changes nothing on a host. It asks whose a folder is after it saw the
//     folder, and only names what is not known to be ours;
//   - PruneSnapshots drops nothing that an open session goes on from, nor what a fork is to
//     begin with, which PinSnapshot keeps. It asks the sessions, and drops nothing of one that
//     does not answer (Unasked);
//   - snapshots are masked with the secrets of the seed's newest generations, and with those
//     of what codex has just made of the login;
//   - a worker takes at most four snapshots at once, and two of one host, whatever they are
//     taken for, and restores as many. Some activities wait for their turn, and all others
//     fail with ErrTypeBusy and come again: workflows go on asking when the attempts of the
//     retry policy are used up. Nothing is given up for want of room, even with Discard;
//   - what a pump had read when its wire was lost is kept: its entries are in the store, and
//     so is what else it knew, for RecordLost;
//   - RunPump returns HostLost once the host did not answer for LostAfter. The time since when
//     is in its heartbeat (OutOfReach), whichever worker tried.
//
// What is kept in the store:
//
//	transcripts/<session>/<first seq>-<generation>.<pump>.<part>   JSON lines of Entry
//	requests/<session>/<digest>                                    a Request with nothing cut
//	diffs/<session>/<turn>-<incarnation>.<offset>                  the TurnDiff of a turn, up to there; only the newest is kept
//	owned/<kind>.<id>.<occasion>/<family>/<name>                   what messages, batches and schedules name: see internal/owned
//	answers/<session>/<digest>-<random>                            secret answers to a request, until codex has them
//	told/<session>/<digest>-<random>                               the same, for redaction, until the session is closed
//	rooted/<session>/<host>                                        in which root folder of a host a session was prepared; until all of it is kept or gone
//	heard/<session>                                                what its newest pump knew when its wire was lost; until the session comes up again, or ends
//	deliverables/<session>/calls/<call>                            what became of a call of deliver: a Deliverable, or why not
//	deliverables/<session>/content/<name>                          what was delivered, each content once
//	exec/<id>/<stream>-<offset>                                    raw output
//	exec/<id>/end                                                  an ExecResult
//	snapshot-pins/<snapshot>/<session>.<run>                       that a fork is to begin with it
//	refreshes/<seed>/<digest of auth.json>                         that its refresh token was about to be used
package activities
