// Package snapshots keeps what a session needs to continue elsewhere: the rollouts of its
// thread, its work folder, and the settings of the thread. It never keeps a credential. Of
// CODEX_HOME it keeps only the rollouts. Known secrets in other files are overwritten with
// as many '*' and counted in the manifest.
//
// A snapshot is a manifest, which names trees. A tree is a sorted list of entries, and the
// entry of a file names the chunks of its content (see package chunks). Lists are chunks
// too. Snapshots can be deleted in any order. A prune frees the chunks that no snapshot
// needs.
//
// Take reads only the files that differ from the parent, the session's last good snapshot.
// It creates the manifest last, after every pack was read back, compared by digest and
// searched again for secrets. Without the manifest there is no snapshot.
//
// A snapshot keeps files, folders, symlinks, hard links, holes, permissions, times in
// nanoseconds, and names of any bytes, but no owners and extended attributes. The manifest
// lists what else is left out: sockets, FIFOs, devices, paths longer than 4,090 bytes, and
// files that the host would not let us read. A snapshot that lacks only such files counts
// as complete, but their originals must not be deleted.
//
// Nothing is pruned while the store has a snapshot of a newer format. Memory is bounded,
// and nothing is written to the worker's disk.
package snapshots
