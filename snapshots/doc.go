// Package snapshots keeps what it takes to go on elsewhere: the rollout files
// of a session's thread and its work directory. Never a credential: the files
// that hold one are left out by name, and known secrets that got copied into
// others are overwritten by as many '*', counted in the manifest.
//
// A snapshot is a few parts, each a tar archive streamed from the host into the
// store, and a manifest that is written last, after every part was read back
// and its digest compared. Without its manifest a snapshot is incomplete: it is
// listed, and never used.
package snapshots
