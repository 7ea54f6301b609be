// Package hosts has the activities on hosts that belong to no session, and what the others
// need to know of a host: whether codex is there, whether its sandbox protects a
// credential, and whether its root folder is there.
//
// # Other sessions
//
// A session's commands see nothing of other sessions below the root folder (folder.Hidden).
// CheckHost tries that with two made-up sessions, one of which is prepared while codex runs for
// the other, and reports it as "private".
//
// # Root folders
//
// After a reboot, the disk with a host's root folder may not be mounted yet, so the absence
// of a folder proves nothing. PrepareSession gives the root folder an id (the file
// "root-id"). The store records in which root folder a session was prepared, before
// anything of the session is on the host and until all of it is saved or removed. While
// that root folder is missing, every activity that would rely on an absence fails with
// ErrTypeRootMissing and is tried again, and PrepareSession makes no second one. With
// Discard, CloseSession and WipeLeftover give up what is in the missing root folder, and do
// not report it wiped.
//
// Earlier versions recorded no root folder. For their sessions any root folder counts that
// has an id, codex or a session in it.
package hosts
