// Package chunks keeps content in the store, each piece once.
//
// A chunk is at most [MaxChunk] bytes and is named by its [Digest]. [Split] cuts a file into
// chunks. A [Batch] adds chunks to a [Store], a [Reader] gets them back. Chunks lie in packs,
// compressed and encrypted; an index says which pack holds which chunk. Who needs a chunk is
// not known here: [Store.Prune] asks for the digests that are needed, and deletes packs that
// hold no others.
//
// # Guarantees
//
// A chunk is stored once by all workers that share a store, but for those that several add at
// the same time. What a reader returns was compared with its digest; otherwise the error
// is [ErrMissing] or [ErrRotten].
//
// Commit calls its function after every pack was read back, compared and searched for
// secrets. It fails with [ErrCondemned] if a prune took what the batch relies on. A process
// that is killed at any moment loses no chunk that is needed, and what it left is pruned.
//
// Memory is bounded but for the index, which takes 24 bytes a chunk. A Store is safe for
// concurrent use.
package chunks
