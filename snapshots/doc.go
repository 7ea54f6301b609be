// Package snapshots keeps what it takes to go on elsewhere: the rollout files
// of a session's thread and its work directory. Never a credential: CODEX_HOME
// is left out but for its rollouts, and known secrets that got copied into
// other files are overwritten by as many '*', counted in the manifest.
//
// A snapshot is a few parts, each a tar archive streamed from the host into the
// store, and a manifest. The manifest is written last, after every part was
// read back, compared by digest and searched once more for secrets. Without its
// manifest a snapshot is incomplete: it is listed, and never used.
//
// Memory is bounded whatever the size of the tree, and nothing touches the
// worker's disk.
package snapshots
