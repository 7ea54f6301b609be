// Package records stores and reads transcripts, requests, diffs, delivered files, and
// commands' output. A transcript is in segments, each of one owner; readers see each entry
// once, whichever attempts wrote it.
package records
