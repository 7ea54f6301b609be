// Package process keeps journaled processes on hosts: commands that outlive every
// connection, and whose output is a file that only grows.
//
// [Start] starts one in a folder of its own, [Attach] reads its journal from an offset and
// writes to its input, [Inspect] says what is known of it, [Stop] ends it, [TrimJournal]
// frees what nobody needs any more, and [Remove] deletes the folder. [Reap] ends everything
// that a session has left on the host. [LeaveWatch] and [WatchFile] leave a note about a
// process or a file; [LookWatched] and [LookFiles] then say, for all notes at once, what has
// changed.
//
// # Guarantees
//
// A process is started at most once per folder, however often Start is repeated. No byte of
// the journal is delivered twice or left out: a loss is [ErrJournalLost]. Of all
// attachments, only that of the highest epoch writes; once it is made, nothing that an
// earlier one sent can arrive.
//
// A process is told from a later one with the same pid by its start time and the boot of the
// host. A secret is in no file, argument or environment (see [Spec]). Everything that
// changes the host is fenced by the session's epoch.
//
// The errors are those of package hostexec, beside those named here. What a host must have
// is said there, too.
package process
