// Package newer leaves a workflow to newer workers if this worker does not know all parts of
// its input.
//
// During an upgrade, workers of two releases serve the same queue. The older ones may get a
// workflow whose input has something that they do not know: an option of a session, or a part
// of the state that a newer worker's run handed to the next. JSON drops unknown fields without
// a word, and the session would go on without its instructions, or with half its state.
//
// So an input lists its parts that this program does not know: the names in requires that are
// not among [protocol.Features], and a field that the JSON decoder does not know. Then the
// workflow task fails before any code of the workflow runs. Temporal keeps the task and gives
// it to another worker, after a pause that grows to ten minutes. Nothing is dropped. A signed start
// counts for a day ([command.KeptFor]): a worker that judges starts refuses it afterwards, and the
// failure says until when it waits. The failure's text is in the history (once, whatever the number of attempts), in
// `ctl doctor`, in the worker's log, and counted in the metric [Metric].
//
// A worker that accepts only signed commands judges a start first. It refuses a start that is not
// valid, so an unsigned start does not wait for a newer worker.
//
// Activities are another matter: an older worker may get an activity that a newer worker's
// workflow scheduled. The header of each activity has the names that its session requires. A
// worker that lacks one fails the attempt as [protocol.ErrTypeNewer], and Temporal tries again,
// perhaps elsewhere. Unknown fields alone do not count there: a pump that was scheduled before
// a rollback could otherwise never run again.
//
// Workers of releases before this one know none of this. ctl asks the workers of the zone which
// features they know before it starts a session that needs one.
package newer
