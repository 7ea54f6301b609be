// Package hostexec runs shell scripts and moves files on other machines over SSH, and on
// this machine. Its subpackage process controls processes that outlive a connection. Its
// subpackage tree moves whole folders.
//
// A [Host] is a machine, described by a [protocol.HostSpec] and handed out by a [Pool]. A
// [Command] is a POSIX shell script with arguments. A [Fence] ties a command to the [Epoch]
// of a session, so that earlier holders of the session can change nothing on the host.
//
// The host needs sshd, a POSIX /bin/sh and the usual small programs. Nothing is installed
// there. Big files travel by SFTP if the host has it, and otherwise on a script's input.
//
// # Guarantees
//
// A command can end in three ways. If it ran and failed, the error is an [*ExitError]. If
// it never began, the error wraps [ErrUnreachable], [ErrAuth], [ErrHostKeyUnknown],
// [ErrHostKeyChanged], [ErrFenced] or [ErrLocked]. If its end was not seen, the error wraps
// [ErrOutcomeUnknown]; this package never repeats such a command.
//
// Hosts are not trusted: everything that is read of one has a bound, and so has the memory
// that a read takes, also while it is decompressed. If a host sends more, the error is a
// [*FloodError].
//
// No secret is part of a command line: sshd always gets the same constant string, and
// everything else travels on the channel. Output of rc files is dropped. No connection is
// used before its host key has been compared with a pin.
//
// Every call is bounded by its context. If a host accepts connections slowly (MaxStartups),
// callers wait as long as some dials succeed. A peer that sends nothing is given up after
// half a minute; a slow peer is not.
//
// # Forwards
//
// A [Forward] is a port or a socket on a host whose connections come to this program. It
// comes back on the same port after a loss, belongs to an epoch, and is gone after
// Release. [Dial] connects the other way. [ProbeForwarding] says what sshd permits.
//
// # Hosts
//
// This package is tested on Linux: with dash, bash and busybox as /bin/sh, and with and
// without setsid, flock, perl, SFTP, or a tail that uses inotify. macOS and the BSDs are
// untested. The scripts that run commands, and those that move or remove files and trees,
// use only what POSIX has. A fence needs flock(1) or /proc; macOS has neither. Package
// process needs Linux's /proc, and process.TrimJournal the fallocate of util-linux. If
// something is missing, the first call that needs it fails with [ErrUnsupported].
// Forwards need /proc.
//
// The package is larger than others because forwards use the same private connections,
// fences and bounds as commands.
package hostexec
