// Package schedule is the workflow Fire, which a person's Schedule starts.
//
// Schedules are Temporal's, and ctl writes them itself, so that it needs no worker for that. What
// a person does to one (create, pause, trigger …) is therefore another Fire, which starts
// nothing: ctl signs its input, a worker judges it as any start, and the record of that start is
// the record of the act. ctl starts it before it asks Temporal for the act.
package schedule
