// Package process runs journaled processes on hosts: commands that outlive every
// connection. The output of a process goes to its journal, a file that only grows.
//
// [Start] starts a process in a folder of its own. [Attach] reads its journal from an
// offset and writes to its input. [TrimJournal] frees the part of the journal that nobody
// needs. [Reap] ends everything that a session has left on the host. [LeaveWatch] and
// [WatchFile] leave a watch for a process or a file; [LookWatched] and [LookFiles] check
// all watches at once.
//
// # Guarantees
//
// A process is started at most once per folder, however often Start is repeated. An
// attachment delivers each byte of the journal exactly once, and reports a loss as
// [ErrJournalLost]. Only the attachment of the highest epoch writes. Once it is made,
// nothing that an earlier one sent can arrive.
//
// Start time and boot id distinguish a process from a later one with the same pid. A secret
// is in no file, argument or environment (see [Spec]). Everything that changes the host is
// fenced. For other errors and for what a host must have, see package hostexec.
package process
