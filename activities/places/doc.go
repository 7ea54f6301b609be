// Package places has the activities on one session's place on a host: they prepare it,
// start and stop codex there, park and close the session, and wipe what an ended session
// left.
//
// # Going on elsewhere
//
// The file "generation" in a session's folder names the generation for which the folder was
// made, the planted seed, and the snapshot that holds the content of a parked session. A
// caller may rely on this:
//
//   - PrepareSession works in a folder that its own generation has prepared; in the one
//     where the session was parked as RestoreSpec says, if nothing has run there since; or
//     in a new one. Before it makes a new one, it ends the processes of a former
//     generation, saves the login, makes a snapshot (Left) of all that is in none, and
//     removes the folder. So codex never finds an older rollout under a newer index;
//   - a restored work folder is never a person's;
//   - ParkSession and CloseSession wipe nothing before the snapshot is complete and read
//     back, and may be killed at any step. WipeLeftover makes a snapshot before it removes
//     a folder; a folder that is too large for one stays;
//   - a file that the host does not let us read is in no snapshot. Work with such a file is
//     not removed (ErrTypeUnreadable), unless a person discards it. TakeSnapshot says what
//     the snapshot lacks;
//   - WipeLeftover and RecoverSeed have an epoch above the generation behind which they
//     clean up, and below every later one. So they do not fence off a session that is back;
//   - FindLeftovers changes nothing on a host, and asks for the owner of a folder after it
//     saw the folder. It only lists folders that are not known to be ours;
//   - PruneSnapshots drops no snapshot that an open session goes on from, or with which a
//     fork will begin (PinSnapshot), and none of a session that does not answer (Unasked);
//   - snapshots are masked with the secrets of the seed's newest generations and of the
//     login that codex has just made;
//   - a worker takes at most four snapshots at once, two of one host; the same holds for
//     restores. A few activities wait for their turn; the others fail with ErrTypeBusy, and
//     workflows go on asking. Even with Discard, no work is given up for that reason;
//   - a pump whose wire is lost loses nothing that it has read: its entries and, for
//     RecordLost, the rest of its state are in the store.
package places
