// Package tree lists, reads and writes whole folders on hosts. Each operation takes one
// channel, whatever the number and size of the files.
//
// [List] lists names. [Read] reads files while their names are still being sent, and then
// reports the state of each file. [Write] writes a tree beside its final path and renames
// it. [Put] and [Get] move a tree as a tar stream. [PutInParts] uploads a large tree over
// an unreliable connection: a repeated call sends only the rest.
//
// # Guarantees
//
// Names may hold any bytes. Holes stay holes, but are read as zeros from hosts with
// busybox's tar. Links stay links. Owners are not kept, and busybox sets times in whole
// seconds.
//
// A tree that Write writes, or that Put puts into a new or empty folder, appears complete
// or not at all. Read reports [ErrTorn] for a file that was truncated meanwhile.
//
// If the round trip to the host takes 10 ms or more and the host has zstd or gzip, all
// transfers except those of Put and Get are compressed. Memory is bounded whatever the size
// of the tree.
//
// For other errors and for what a host must have, see package hostexec.
package tree
