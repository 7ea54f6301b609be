// Package pumps has the activities that carry on a conversation with codex: RunPump is
// attached to the journal of one process, WatchHost looks after the processes of a host that
// wait, and RecordLost and RecordNotes write transcripts for sessions without a host.
//
// While a session waits for a person, no pump is attached to its process. The last pump left
// a watch on the host before it returned. Each host has one WatchHost. From time to time it
// looks at all watches in one round trip, and tells a session when its process has ended or
// has written a line that matters.
//
// A pump also removes the part of a journal that no pump will read again. So the journal
// of a session that runs for months takes a few megabytes on its host. If a host cannot do
// that, the workflow changes to a new process between two turns.
package pumps
