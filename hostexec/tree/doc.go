// Package tree lists, reads and writes folders on hosts with all their contents. Each
// operation takes one channel, whatever the number and size of the files.
//
// [List] lists names, sorted by the host. [Read] takes names of files and reads the files
// while names are still being sent. At the end it reports the state of each file. [Write]
// writes a tree beside its final path and renames it. [Put] and [Get] move a tree as a tar
// stream.
//
// [PutInParts] uploads a large tree over an unreliable connection. The data that has
// arrived stays on the host, and the next call sends the rest.
//
// # Guarantees
//
// Names may hold any bytes. Holes stay holes, but are read as zeros from hosts with
// busybox's tar. Links stay links. Owners are not kept, and busybox sets times in whole
// seconds.
//
// A tree that Write writes, or that Put puts into a new or empty folder, appears at its
// place complete or not at all. Read reports [ErrTorn] for a file that was cut short while
// it was read.
//
// If the round trip to the host takes 10 ms or more and the host has zstd or gzip, all
// transfers except those of Put and Get are compressed. Memory is bounded whatever the size
// of the tree.
//
// Other errors are those of package hostexec. The documentation of package hostexec also
// says what a host must have.
package tree
