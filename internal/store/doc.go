// Package store keeps encrypted blobs in one place that all workers share.
//
// A blob is a sequence of bytes under a key such as "seeds/team/0001-9f2c".
// Every blob is a plain age file: it is encrypted for the store's recipients
// before it leaves memory, so whoever runs the disk or the bucket sees sizes
// and keys, and keys never say anything of the content. What is inside names
// its own key, so a blob that was moved or swapped is refused like a torn one.
//
// A store has an id, made once with the store. Workers compare it, so that two
// of them never believe in different stores. A process with recipients and no
// identity (ctl) can write and list, and read nothing.
//
// What callers may count on:
//
//   - a blob is there whole or not at all, also after a kill or a power cut;
//   - Create is exclusive between processes, on files and on S3;
//   - ErrNotFound is said only by a store that is there: a folder that is gone
//     or a bucket that does not answer is ErrUnreachable;
//   - a wrong identity is ErrWrongKey and a blob that was cut, changed or moved
//     is ErrTorn, never other bytes;
//   - Rekey encrypts a blob for the recipients of today, in its place: the old one
//     or the new one is there at every moment, and what was deleted or written
//     meanwhile wins;
//   - a Store is safe for concurrent use.
package store
