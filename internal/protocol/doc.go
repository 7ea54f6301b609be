// Package protocol has the types and names that workflows, activities, the worker's API and
// ctl use towards each other: names, ids, kinds of failures, messages, requests, and the
// views that are shown. It imports only the standard library, so that a program that only
// talks to a workflow needs neither the code of the workflows nor that of the activities.
//
//	names.go     task queues, types of workflows, signals, updates, queries, memo fields
//	ids.go       ids of workflows, and their parts
//	kinds.go     kinds of failures and endings
//	options.go   the words of a session's options
//	message.go   messages to a session
//	selector.go  the conditions that a host must meet
//	input.go     files that come with a message; our tools
//	request.go   requests of codex, and their answers
//	entry.go     the lines of a transcript
//	thread.go    data that codex reports: models, usage, limits, progress
//	view.go      views of a session
//	fleet.go     messages to hosts, pools and seeds, and their views
//	batch.go     batches
//	schedule.go  firings of schedules
//	host.go      a host, a session's claim on it, and the session's folders there
//	result.go    results of tasks on hosts and in the store
//
// A type belongs here if two of workflows, activities, the API and ctl name it. Three kinds
// of types do not: the state that a workflow carries from run to run; the input and the
// result of an activity that only one workflow calls, which are beside the activity; and
// the types that a workflow exchanges with the pump, which are in conversation. Typed
// search attributes need Temporal's SDK, so they are in workflows.
//
// All of it is kept in histories and sent between workers of different versions: JSON
// names are never changed, and testdata/golden in workflows lists them.
package protocol
