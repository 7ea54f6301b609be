// Package chunks keeps content in the store as chunks, each chunk once.
//
// A chunk is at most [MaxChunk] bytes and is named by its [Digest]. [Split] cuts a file
// into chunks. A [Batch] adds chunks to a [Store], and a [Reader] reads them and compares
// each with its digest. Chunks lie in packs, compressed and encrypted. An index says which
// pack holds which chunk. [Store.Prune] deletes packs without needed chunks.
//
// A chunk is stored twice only if several workers add it at the same time. If a process is
// killed at any moment, no needed chunk is lost, and a prune deletes what it left.
//
// Memory is bounded, except for the index, which takes 24 bytes for each chunk.
package chunks
