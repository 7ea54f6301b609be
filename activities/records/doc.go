// Package records keeps what is known of a session in the store, and reads it: transcripts,
// requests, diffs, delivered files, and the output of commands. The worker's API reads with
// it, too. A transcript is stored in segments, each of one owner; readers see each entry
// once, whichever attempts wrote it.
package records
