package newer

import "strings"

const (
	needs = " needs what this worker ("
	waits = ". It waits for a newer worker, and nothing of it is dropped"
)

// Lacks returns which worker left a workflow to newer ones and what it does not know, from the
// message with which the worker failed the workflow's task; or "" if the message says something
// else. A query of such a workflow fails with the same message.
func Lacks(message string) string {
	_, rest, ok := strings.Cut(message, needs)
	if !ok {
		return ""
	}
	what, _, ok := strings.Cut(rest, waits)
	if !ok {
		return ""
	}
	return "a worker (" + what
}
