// Package process runs journaled processes on hosts: commands that outlive every
// connection. The output of a process goes to its journal, a file that only grows.
//
// [Start] starts a process in a folder of its own. [Attach] reads its journal from an
// offset and writes to its input. [Inspect] returns its state, and [Stop] ends it.
// [TrimJournal] frees the part of the journal that nobody needs any more, and [Remove]
// deletes the folder. [Reap] ends everything that a session has left on the host.
// [LeaveWatch] and [WatchFile] leave a watch for a process or a file. [LookWatched] and
// [LookFiles] check all watches at once and report the changes.
//
// # Guarantees
//
// A process is started at most once per folder, however often Start is repeated. An
// attachment delivers each byte of the journal exactly once, and reports a loss as
// [ErrJournalLost]. Of all attachments, only that of the highest epoch writes. After it is
// made, nothing that an earlier attachment sent can arrive.
//
// The start time and the boot id distinguish a process from a later one with the same pid.
// A secret is in no file, argument or environment (see [Spec]). Everything that changes the
// host is fenced by the session's epoch.
//
// Other errors are those of package hostexec. The documentation of package hostexec also
// says what a host must have.
package process
