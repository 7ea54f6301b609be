// Package snapshots keeps what a session needs to continue elsewhere: the rollout files of
// its thread, its work directory, and how the thread was set up. It never keeps a
// credential: of CODEX_HOME only the rollouts are kept, and known secrets that were copied
// into other files are overwritten with as many '*' and counted in the manifest.
//
// A snapshot is a manifest, which names trees. A tree is a sorted list of entries, and the
// entry of a file names the chunks of its content. Lists and content are chunks, which
// package chunks keeps, each once per store. So a snapshot costs only what differs from all
// other snapshots of all sessions. Snapshots can be deleted in any order; a prune frees what
// nothing needs any more.
//
// Take lists a tree on the host, compares the list with that of the parent (the session's
// last good snapshot), and reads only what differs. It creates the manifest last, after
// every pack was read back, compared by digest and searched again for secrets. Until then
// there is no snapshot. If an attempt is killed, the next one finds what it brought into
// the store.
//
// What cannot be read is left out, and so are paths more than 4,090 bytes deep, which could
// not be created again. The manifest lists both.
//
// Restore and Export compare every chunk with its digest. A tree appears in its place
// complete or not at all.
//
// A work folder is kept in full except for what is excluded, or only what git does not have
// upstream (see [Git]). In the latter case, a restore fetches the rest from there, and
// files that git ignores are not kept. If git would not cover a folder, it is kept in full,
// and the manifest says why.
//
// [CheckLineage] reports whether a snapshot has all the rollouts that codex needs to resume
// its thread. A fork's history begins in the rollout of another thread.
//
// A snapshot keeps files, folders, symlinks, hard links, holes, permissions, times in
// nanoseconds, and names of any bytes. It does not keep owners and extended attributes, nor
// sockets, FIFOs and devices, which the manifest lists. It also lists what the host would
// not let us read, and [Manifest.Unread] counts it: a snapshot that lacks only these counts
// as complete, but the original must not be deleted because of it.
//
// [Keep] pins a snapshot for a session that is to continue from it, and [Drop] deletes no
// pinned snapshot (see pin.go). Only a session itself knows from which snapshots it
// continues, so ask it before a Drop.
//
// For a snapshot of a newer format, this version returns [ErrNewer]. It neither uses nor
// deletes it, and prunes nothing while such a snapshot exists.
//
// Memory is bounded whatever the size of the tree, and nothing is written to the worker's
// disk.
package snapshots
