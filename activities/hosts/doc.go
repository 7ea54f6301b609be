// Package hosts has the activities on hosts that belong to no session, and what the others
// need to know of a host: whether codex is there, whether its sandbox keeps commands from a
// credential, and whether its root folder is there.
//
// # Root folders
//
// After a reboot, the disk with a host's root folder may not be mounted yet. So the absence
// of a folder proves nothing, unless the root folder is there. PrepareSession gives the root
// folder an id (the file "root-id"), and the store records in which root folder a session was
// prepared. If that root folder is not there, every activity that would rely on an absence
// fails with ErrTypeRootMissing and is tried again. The same holds if the root folder cannot
// be recognized, because an earlier version prepared the session and nothing of ours is in
// the folder. PrepareSession does not make a second root folder for a session that may have
// something in the first. With Discard, CloseSession and WipeLeftover give up whatever is in
// the missing root folder, and do not report that it is wiped.
package hosts
