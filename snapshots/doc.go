// Package snapshots keeps the data that a session needs to continue elsewhere: the rollout
// files of its thread, its work folder, and the settings of the thread. It never keeps a
// credential. Of CODEX_HOME it keeps only the rollouts. Known secrets in other files are
// overwritten with as many '*' and counted in the manifest.
//
// A snapshot is a manifest, which names trees. A tree is a sorted list of entries, and the
// entry of a file names the chunks of its content. Lists and content are chunks, and
// package chunks keeps each chunk once per store. So a snapshot adds only the data that no
// other snapshot of any session has. Snapshots can be deleted in any order, and a prune
// frees chunks that no snapshot needs any more.
//
// Take lists a tree on the host, compares the list with that of the parent (the session's
// last good snapshot), and reads only files that differ. It creates the manifest last,
// after every pack was read back, compared by digest and searched again for secrets. The
// snapshot exists only when the manifest does. If an attempt is killed, the next attempt
// uses the chunks that it stored.
//
// Files that cannot be read are left out. So are paths longer than 4,090 bytes, which could
// not be created again. The manifest lists both.
//
// Restore and Export compare every chunk with its digest. A tree appears in its place
// complete or not at all.
//
// A work folder has one of three policies. The policy none keeps nothing of it. The policy
// full keeps all of it except for excluded files. The policy git keeps only what upstream
// does not have (see [Git]): a restore fetches the rest from upstream, and files that git
// ignores are not kept. If the policy git would not cover a folder, the folder is kept in
// full, and the manifest says why.
//
// [CheckLineage] reports whether a snapshot has all the rollouts that codex needs to resume
// its thread. A fork's history begins in the rollout of another thread.
//
// A snapshot keeps files, folders, symlinks, hard links, holes, permissions, times in
// nanoseconds, and names of any bytes. It does not keep owners and extended attributes, nor
// sockets, FIFOs and devices, which the manifest lists. The manifest also lists files that
// the host would not let us read, and [Manifest.Unread] counts them. A snapshot that lacks
// only such files counts as complete, but the originals of these files must not be deleted.
//
// [Keep] pins a snapshot for a session that will continue from it, and [Drop] deletes no
// pinned snapshot (see pin.go). Only a session itself knows from which snapshots it
// continues, so ask it before a Drop.
//
// For a snapshot of a newer format, this version returns [ErrNewer]. It neither uses nor
// deletes such a snapshot, and prunes nothing while one exists.
//
// Memory is bounded whatever the size of the tree, and nothing is written to the worker's
// disk.
package snapshots
