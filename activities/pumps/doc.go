// Package pumps has the activities that carry on a conversation with codex. RunPump
// attaches to the journal of one process, WatchHost watches the waiting processes of a
// host, and RecordLost and RecordNotes write transcripts for sessions without a host.
//
// No pump is attached while a session waits for a person. The last pump leaves a watch on
// the host. The host's WatchHost looks at all watches in one round trip and tells a session
// when its process has ended or has written a line that matters.
//
// A pump also trims the part of a journal that no pump will read again, so that a session
// of months takes a few megabytes. If a host cannot trim, the workflow changes to a new
// process between two turns.
package pumps
