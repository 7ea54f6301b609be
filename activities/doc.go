// Package activities does what workflows decide: on hosts, in the store, in a
// conversation with codex. It remembers nothing that matters; whatever it did
// can be found again on the host or in the store.
//
// The nouns: a Set is what one worker registers; its families are Hosts (what
// belongs to no session), Sessions (one session on its host), Seeds and
// Engine. A Claim says for whom something is done on a host; with the attempt
// of the activity it becomes the epoch that the host compares.
//
// Promises:
//
//   - every activity may be run again, also while an older attempt still runs
//     elsewhere: the same result, or an error that says what is in the way;
//   - what fails leaves nothing half done, and no credential, on the host;
//     where the host cannot be reached the error says what stays there;
//   - nothing is removed from a host before what must last is in the store;
//   - every error is an ApplicationError of a type in errors.go, whose details
//     hold one Problem: a sentence of what failed and one of what to do;
//   - known secrets of the session's seed are taken out of everything that is
//     stored, published, or returned to a workflow.
//
// While a session waits for a person, nothing of ours is attached to its
// process. The pump that returned left a watch on the host, and WatchHost, one
// for a host, looks after all of them in one round trip from time to time: who
// ended, or wrote a line that matters, has its session told.
//
// A pump also gives back what the host keeps of a journal that no pump will read
// again, so a session of months takes a few megabytes there; where a host cannot
// do that, the workflow changes to a new process between two turns.
//
// What is kept in the store:
//
//	transcripts/<session>/<first seq>-<generation>.<pump>.<part>   JSON lines of Entry
//	requests/<session>/<digest>                                    a Request with nothing cut
//	exec/<id>/<stream>-<offset>                                    raw output
//	exec/<id>/end                                                  an ExecResult
//	rotated/<seed>/<generation>-<session>-<digest>                 an auth.json that codex changed
package activities
