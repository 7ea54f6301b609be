// Package snapshots keeps what it takes to go on elsewhere: the rollout files
// of a session's thread, its work directory, and how the thread was set up.
// Never a credential: CODEX_HOME is left out but for its rollouts, and known
// secrets that got copied into other files are overwritten by as many '*',
// counted in the manifest.
//
// A snapshot is a manifest, which names trees; a tree is a sorted list of
// entries, and an entry of a file names the chunks that it consists of. Lists
// and content are chunks, kept in packs, each chunk once in a store. So a
// snapshot costs what changed since any other one, of any session, and can be
// deleted in any order: what nothing needs any more Prune frees.
//
// Take lists a tree on the host, compares that with the list of the parent
// (the session's last good snapshot), and reads only what is not the same. The
// manifest is written last, by creating it, after every pack was read back,
// compared by digest and searched once more for secrets. Until then there is
// no snapshot; what an attempt that was killed brought into the store, the
// next one finds there.
//
// Restore and Export compare every chunk with its digest on the way. A tree
// appears in its place whole or not at all.
//
// A work folder is kept in full but for what is excluded, or by what git does
// not have upstream (see [Git]): then a restore fetches the rest from there, and
// what git ignores is not kept. Where git would not cover a folder it is kept
// in full, and the manifest says why.
//
// [CheckLineage] says whether a snapshot has all the rollouts that codex needs
// to resume its thread: a fork's begin in another thread's.
//
// What is kept: files, folders, symlinks, hard links, holes, permissions, times
// to the nanosecond, names of any bytes. What is not: owners, extended
// attributes, and sockets, FIFOs and devices, which the manifest lists. So it
// does with what the host would not let us read, which [Manifest.Unread] counts:
// a snapshot that lacks such is complete, and no reason to delete the original.
//
// [Keep] pins a snapshot for who is to go on from it, and [Drop] deletes none
// that is pinned (see pin.go); from which its own session goes on only that can
// say, so whoever drops any asks it first.
//
// A snapshot of a format that a newer version writes is [ErrNewer] to this one,
// which neither uses nor deletes it, and prunes nothing while it is there.
//
// Memory is bounded whatever the size of the tree, and nothing touches the
// worker's disk.
package snapshots
