// Package capacity estimates what a load of sessions asks of Temporal and of workers.
//
// An action is what Temporal Cloud counts: a workflow started, a signal or update, a timer, an
// attempt at an activity, a heartbeat, a change of search attributes, a marker. Workflow tasks
// are none. What people and metrics ask (queries) is not estimated.
//
// Each constant names its source.
package capacity
