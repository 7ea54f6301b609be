// Package hostexec runs shell scripts and moves files on other machines over SSH, and on
// this one, under one contract. Its subpackage process starts and controls processes that
// outlive a connection. Its subpackage tree lists, reads and writes whole folders.
//
// A [Host] is a machine, described by a [protocol.HostSpec] and handed out by a [Pool]. A
// [Command] is a POSIX shell script with arguments. A [Fence] ties a command to the [Epoch]
// of the session for which it runs. Earlier holders of the session can then change nothing
// on the host any more.
//
// The host needs sshd, a POSIX /bin/sh and the usual small programs. Nothing of ours is
// installed there.
//
// A file is written beside its final path, checked, and renamed by a script. The bytes of a
// big file travel by SFTP if the host has it, and on the script's input if it does not or
// if SFTP fails. Callers see no difference.
//
// [ReadBelow] reads a file in a folder whose owner may try to make us read another file. It
// checks the opened file, not the path.
//
// # Guarantees
//
// A command can end in three ways that callers can tell apart. If it ran and failed, the
// error is an [*ExitError]. If it never began, the error wraps [ErrUnreachable], [ErrAuth],
// [ErrHostKeyUnknown], [ErrHostKeyChanged], [ErrFenced] or [ErrLocked]. If its end was not
// seen, the error wraps [ErrOutcomeUnknown]; this package never repeats such a command.
//
// No secret is part of a command line. sshd always gets the same constant string; script,
// arguments, environment and input travel on the channel. Output of rc files is dropped. No
// connection is used until its host key has been compared with a pin.
//
// A host gets as few connections as can carry its open channels. Each connection carries
// eight channels, or the number that the host's MaxSessions allows. Connections that a
// burst needed are closed again after it. If a host accepts connections slowly
// (MaxStartups), dials are retried, and callers wait as long as some dials succeed.
//
// Every call is bounded by its context. A peer that sends nothing is given up after half a
// minute; a slow peer is not, because every byte that it sends counts as a sign of life,
// and so does every queued byte that it accepts. Pool.Close closes every connection and
// leaves no goroutine.
//
// # Hosts
//
// This package is tested on Linux: with dash, bash and busybox as /bin/sh, and with and
// without setsid, flock, perl, SFTP, or a tail that uses inotify. macOS and the BSDs are
// untested. The scripts that run commands, and those that move or remove files and trees,
// use only what POSIX has. A fence needs flock(1) or /proc; macOS has neither. Package
// process needs Linux's /proc to tell a process from a later one with the same pid. If
// something is missing, the first call that needs it fails with [ErrUnsupported].
// process.TrimJournal needs the fallocate of util-linux.
package hostexec
