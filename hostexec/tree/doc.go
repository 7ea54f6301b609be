// Package tree lists, reads and writes folders on hosts with all that is in them, over one
// channel each, whatever the number and size of their files.
//
// [List] lists names, sorted by the host. [Read] reads named files while names are still
// being sent, and then reports the state of each file. [Write] writes a tree beside its
// final path and renames it. [Put] and [Get] move a tree as a tar stream.
//
// [PutInParts] uploads a large tree over an unreliable connection. What has arrived stays
// on the host, and the next call goes on from there.
//
// # Guarantees
//
// Names may hold any bytes. Holes stay holes (with busybox's tar they are read as zeros),
// and links stay links. Owners are not kept, and busybox sets times in whole seconds.
//
// What Write writes, and what Put puts into a new or empty folder, appears at its place
// complete or not at all. Read reports [ErrTorn] for a file that was cut short while it was
// read.
//
// If the host is 10 ms away or more and has zstd or gzip, all but the tar streams of Put and
// Get travels compressed. Memory is bounded whatever the size of the tree.
//
// The errors are those of package hostexec, beside those named here. What a host must have
// is said there, too.
package tree
