// Package activities has the activities with which workflows act on hosts, on the store,
// and in conversations with codex. It keeps no state that must survive: the host and the
// store record everything that it did.
//
// A Set holds the activities that one worker registers. Its families are Hosts (activities
// that belong to no session), Sessions (one session on its host), Seeds, Snapshots, Batches
// and Engine. A Claim names the session for which an activity acts on a host. The Claim
// and the attempt of the activity make the epoch that the host compares.
//
// Promises:
//
//   - every activity may be run again, even while an older attempt still runs elsewhere:
//     it gives the same result, or an error that says what is in the way;
//   - a failure leaves nothing half done, and no credential, on the host; if the host cannot
//     be reached, the error says what stays there;
//   - nothing is removed from a host before the store has everything that must last;
//   - every error, except those of Engine, is an ApplicationError of an ErrType, whose
//     details hold one Problem: a sentence of what failed and one of what to do;
//   - known secrets of the session's seed are removed from everything that is stored,
//     published, or returned to a workflow.
//
// While a session waits for a person, no pump is attached to its process. The last pump left
// a watch on the host before it returned. Each host has one WatchHost. From time to time it
// looks at all watches in one round trip, and tells a session when its process has ended or
// has written a line that matters.
//
// A pump also removes the part of a journal that no pump will read again. So the journal
// of a session that runs for months takes a few megabytes on its host. If a host cannot do
// that, the workflow changes to a new process between two turns.
//
// # Logins that rotate
//
// The refresh token of a ChatGPT login can be used once. When codex has used it on a host,
// the new login there is the only good copy until it is in the store and the seed's workflow
// has made it a generation. A caller may rely on this:
//
//   - auth.json is looked at before a pump listens to codex, every eight seconds during the
//     conversation, after it and before its result is returned, whenever codex is stopped,
//     and before anything is wiped. While a session waits or is idle, its host's WatchHost
//     compares two file times on the host about every eight seconds, and reads an auth.json
//     that has changed. If the worker of a WatchHost dies, this is noticed after ten seconds;
//   - only a valid, later login of the same account becomes the next generation, and only by
//     compare and set on the generation that it was made from and the epoch of the lease. No
//     login is taken from a session that has lost the lease (ErrTypeSeedFenced,
//     RunPumpResult.SeedLost): a pump that finds this is cancelled, and the session stops
//     codex and asks for the seed again. PrepareSession then saves the login on the host
//     under the new lease before codex is started. A half-written file is read again. A
//     logged-out file changes nothing. A login of another account is refused and reported;
//   - the seed is marked as rotated before the blob is written, with the reason if that
//     fails, and the blob is read back before the pointer moves. A kill between any two
//     steps loses nothing, and the next look goes on;
//   - a turn's result waits at most ten seconds for this, and is returned in any case;
//   - no login is wiped before it is saved: PrepareSession, CloseSession, WipeLeftover and
//     RecoverSeed fail instead and leave it there. If an earlier workflow of the seed granted
//     the lease (SeedNow.First), closing, parking and WipeLeftover save the login first. The
//     seed takes it only while nobody holds the seed. CloseSession with Discard gives up only
//     what cannot be saved, and sets Unsaved;
//   - a token that codex has just rotated is hidden like the planted one, and so are tokens of
//     former generations. For this, auth.json is looked at before a finished item or a request
//     is folded, so before it is stored, shown or returned to a workflow. This costs a round
//     trip for each item and request, except for those that came before the last look. Three
//     gaps remain. Pieces of a text that streams, which are stored nowhere, may show such a
//     token to live viewers for two seconds. If a host does not answer such a look within
//     five seconds, the pump logs this and does not wait longer. A token is not known if it
//     was rotated away again between two looks, or if a command changed it before printing it
//     (reversed, in pieces).
//
// Before RefreshSeed sends the request, it stores that the token is about to be used. It
// stores the new login before it ends. An attempt that follows a killed one finds the answer,
// or returns the verdict "lost". RecoverSeed is for a lease whose holder has ended without
// saving its login.
//
// # Root folders
//
// After a reboot, the disk with a host's root folder may not be mounted yet. So the absence
// of a folder proves nothing, unless the root folder is there. PrepareSession gives the root
// folder an id (the file "root-id"), and the store records in which root folder a session was
// prepared. If that root folder is not there, every activity that would rely on an absence
// fails with ErrTypeRootMissing and is tried again. The same holds if the root folder cannot
// be recognized, because an earlier version prepared the session and nothing of ours is in
// the folder. PrepareSession does not make a second root folder for a session that may have
// something in the first. With Discard, CloseSession and WipeLeftover give up whatever is in
// the missing root folder, and do not report that it is wiped.
//
// # Going on elsewhere
//
// The file "generation" in a session's folder on a host says for which generation of the
// session the folder was made, which seed was planted, and, after the session was parked,
// which snapshot holds the content. A caller may rely on this:
//
//   - PrepareSession works in one of three folders: one that its own generation has prepared;
//     the one where the session was parked as RestoreSpec says, if nothing has run there
//     since; or a new one. It clears what a former generation left in that place: it ends the
//     processes, saves the login, makes a snapshot (Left) of all that is in no snapshot, and then
//     removes the folder. So codex never finds an older rollout under a newer index;
//   - a restored work folder is always the session's own, never a person's. Differs says how
//     it differs from the kept one, for instance because of what the policy leaves out;
//   - ParkSession and CloseSession wipe nothing before the snapshot is complete and read back,
//     and have the same result if they are killed at any step and repeated. WipeLeftover makes
//     a snapshot of a folder before it removes the folder; a folder that is too large for a
//     snapshot stays;
//   - a file that the host does not let us read is in no snapshot. If the removal of a
//     session's work would remove such a file, nothing of the work is removed
//     (ErrTypeUnreadable), unless a person discards it. TakeSnapshot keeps the rest and says
//     what the snapshot lacks;
//   - activities that clean up behind a generation (WipeLeftover, RecoverSeed) have an epoch
//     above that generation and below every later one. So they leave a session that is back
//     alone, and do not fence it off;
//   - FindLeftovers changes nothing on a host. It asks for the owner of a folder after it saw
//     the folder, and only lists folders that are not known to be ours;
//   - PruneSnapshots drops no snapshot that an open session goes on from. Nor does it drop a
//     snapshot with which a fork will begin: PinSnapshot keeps it. It asks the sessions, and
//     drops no snapshot of a session that does not answer (Unasked);
//   - snapshots are masked with the secrets of the seed's newest generations, and with those
//     of the login that codex has just made;
//   - a worker takes at most four snapshots at once, and two of one host, for all purposes
//     together. For restores the limits are the same. A few activities wait for their turn.
//     All others fail with ErrTypeBusy and are tried again: workflows go on asking when the
//     attempts of the retry policy are used up. Even with Discard, no work is given up
//     because all places are taken;
//   - a pump whose wire is lost loses nothing that it has read: its entries are in the store,
//     and the rest of its state is stored for RecordLost;
//   - RunPump returns HostLost if the host has not answered for LostAfter. Its heartbeat
//     (OutOfReach) says since when, so that this holds for any number of workers.
//
// What is kept in the store:
//
//	transcripts/<session>/<first seq>-<generation>.<pump>.<part>   JSON lines of Entry
//	requests/<session>/<digest>                                    a Request with nothing cut
//	diffs/<session>/<turn>-<incarnation>.<offset>                  the TurnDiff of a turn up to that offset; only the newest is kept
//	owned/<kind>.<id>.<occasion>/<family>/<name>                   blobs that messages, batches and schedules name: see internal/owned
//	answers/<session>/<digest>-<random>                            secret answers to a request, until codex has them
//	told/<session>/<digest>-<random>                               the same, for redaction, until the session is closed
//	rooted/<session>/<host>                                        the root folder of a host in which a session was prepared; until all of it is kept or gone
//	heard/<session>                                                what the newest pump knew when its wire was lost; until the session comes up again, or ends
//	deliverables/<session>/calls/<call>                            the outcome of a call of deliver: a Deliverable, or the reason of a refusal
//	deliverables/<session>/content/<name>                          the delivered files, each content once
//	exec/<id>/<stream>-<offset>                                    raw output
//	exec/<id>/end                                                  an ExecResult
//	snapshot-pins/<snapshot>/<session>.<run>                       a mark that a fork will begin with the snapshot
//	refreshes/<seed>/<digest of auth.json>                         a mark that this refresh token was about to be used
package activities
