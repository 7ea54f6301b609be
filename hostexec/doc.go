// Package hostexec runs shell scripts, keeps processes and moves files on
// other machines over SSH, and on this one, under one contract.
//
// A [Host] is a machine, described by a [Spec] and handed out by a [Pool]. A
// [Command] is a POSIX shell script with arguments. A [Fence] ties a command
// to the [Epoch] of the session on whose behalf it runs: whoever held the
// session before can change nothing on the host any more.
//
// The host needs sshd, a POSIX /bin/sh and the usual small programs; nothing
// of ours is installed there.
//
// Files are written beside their place, checked, and renamed by a script. Big
// ones get their bytes by SFTP where the host has it, and on the script's
// input where it has not or SFTP fails; callers see no difference.
//
// Trees are listed, read and written over one channel each, however many files
// there are and however large they are: [ListTree] says what there is, sorted by
// the host, [ReadTree] brings named files while the names still come and says
// what they are like afterwards, [WriteTree] makes a tree beside its place and
// renames it. Names may be any bytes. Holes stay holes (busybox's tar reads them
// as zeros); links stay links; owners are not kept, and busybox sets whole seconds.
// From a host that is 10 ms away or more, a listing and what is read come
// compressed, where it has zstd or gzip.
//
// [ReadBelow] reads a file in a folder whose owner may want us to read another
// one: what is open is looked at, not the path that led there.
//
// # What callers may count on
//
// Three endings are told apart. A command that ran and failed is an
// [*ExitError]. One that never began is an error that wraps [ErrUnreachable],
// [ErrAuth], [ErrHostKeyUnknown], [ErrHostKeyChanged], [ErrFenced] or
// [ErrLocked]. One whose end nobody saw wraps [ErrOutcomeUnknown]; nothing in
// this package repeats it.
//
// No secret is part of a command line. sshd is given the same constant string
// every time; script, arguments, environment and input travel on the channel.
// What rc files print is dropped. No connection is used before its host key
// was compared with a pin.
//
// Connections to a host are as few as will carry what is open on it, eight
// channels each or what its MaxSessions allows, and are given back when a crowd
// has gone. A host that is slow to take them in (MaxStartups) is asked again
// and waited for, as long as it takes in any.
//
// Every call is bounded by its context, and a peer that says nothing is given
// up after half a minute. Pool.Close gives back every connection and leaves
// no goroutine.
//
// # Hosts
//
// Linux is what this is tested on: dash, bash and busybox as /bin/sh, with and
// without setsid, flock, perl, SFTP, or a tail that knows inotify. macOS and
// the BSDs are untested. The scripts that run a command, move files and trees
// or remove them keep to POSIX; a fence takes flock(1) or /proc, macOS has
// neither. Journaled processes, Reap and what is built on them need Linux's
// /proc to tell a process from a later one of the same number. What is lacking
// is [ErrUnsupported] at the first call. TrimJournal needs the fallocate of
// util-linux.
package hostexec
