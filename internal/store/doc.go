// Package store keeps encrypted blobs in one place that all workers share.
//
// A blob is a sequence of bytes under a key such as "seeds/team/0001-9f2c". It is stored as
// a plain age file, encrypted for the store's recipients before it leaves memory. The
// operator of the disk or bucket sees only sizes and keys, which reveal nothing about the
// content. The encrypted part has the blob's key, so a moved or swapped blob is refused
// like a torn one.
//
// A store has an id. Workers compare it, so that they never use different stores unnoticed.
// A process with recipients but no identity (ctl) can write and list, but not read.
//
// Guarantees:
//
//   - a blob exists whole or not at all, even after a kill or a power cut;
//   - Create is exclusive between processes. CreateOnce refuses (ErrNotExclusive) on an S3
//     server that ignores If-None-Match;
//   - a written blob can be read and listed at once. A server whose reads or listings lag
//     behind cannot hold a store;
//   - ErrNotFound means that the store itself is reachable: for a missing folder or a
//     bucket that does not answer, the error is ErrUnreachable;
//   - wrong bytes are never returned: the error is ErrWrongKey for a wrong identity, and
//     ErrTorn for a blob that was cut, changed or moved;
//   - Rekey encrypts a blob for the current recipients, in place. The key always holds the
//     old blob or the new one. A concurrent write or delete wins;
//   - a Store is safe for concurrent use.
package store
