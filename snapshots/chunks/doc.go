// Package chunks keeps content in the store as chunks, each chunk once.
//
// A chunk is at most [MaxChunk] bytes and is named by its [Digest]. [Split] cuts a file
// into chunks. A [Batch] adds chunks to a [Store], and a [Reader] reads them. Chunks lie in
// packs, compressed and encrypted. An index says which pack holds which chunk. The package
// does not know which chunks are needed: [Store.Prune] asks its caller for the needed
// digests, and deletes packs without needed chunks.
//
// # Guarantees
//
// All workers that share a store keep a chunk only once, unless several of them add it at
// the same time. A reader compares each chunk with its digest. If a chunk cannot be read,
// the error is [ErrMissing] or [ErrRotten].
//
// Commit calls its function after every pack was read back, compared and searched for
// secrets. It fails with [ErrCondemned] if a prune deleted a chunk that the batch relies
// on. If a process is killed at any moment, no needed chunk is lost, and a prune deletes
// the unneeded packs that it left.
//
// Memory is bounded, except for the index, which takes 24 bytes for each chunk. A Store is
// safe for concurrent use.
package chunks
