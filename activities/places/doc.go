// Package places has the activities on one session's place on a host: they prepare it, start
// and stop codex there, park and close the session, and wipe what an ended session left.
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
package places
