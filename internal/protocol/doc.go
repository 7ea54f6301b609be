// Package protocol is what workflows, activities, the worker's API and ctl say to each
// other: names, ids, kinds of failures, messages, requests, and the views that are
// shown. It imports the standard library alone, so that whoever only speaks to a
// workflow needs neither its code nor that of the activities.
//
//	names.go     task queues, types of workflows, signals, updates, queries, memo fields
//	ids.go       ids of workflows, and what they are made of
//	kinds.go     kinds of failures and endings
//	options.go   the words of a session's options
//	message.go   what a session takes
//	selector.go  the conditions that a host must meet
//	input.go     files that come with a message; our tools
//	request.go   what codex asks for, and how it is answered
//	entry.go     the lines of a transcript
//	thread.go    what codex reports: models, usage, limits, progress
//	view.go      what a session shows
//	fleet.go     hosts, pools and seeds: what they take and show
//	batch.go     batches
//	schedule.go  firings of schedules
//	host.go      a host, a session's claim and its folders there
//	result.go    what tasks on hosts and in the store return
//
// A type belongs here if two of workflows, activities, the API and ctl name it. Three
// kinds of types do not: the state that a workflow carries from run to run; the input
// and the result of an activity that only one workflow calls, which stand with the
// activity; and what a workflow hands to the pump and takes from it, which stands in
// conversation. Typed search attributes need Temporal's SDK, so they are in workflows.
//
// All of it is kept in histories and sent between workers of different versions: JSON
// names are never changed, and testdata/golden in workflows lists them.
package protocol
