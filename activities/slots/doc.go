// Package slots divides the activity slots of a worker into classes, so that the long
// activities of one class never keep those of another waiting.
//
// A worker polls one task queue, and learns the type of an activity only when it has it. So
// each poll holds a slot for short activities. When the type is known, the activity moves to
// a slot of its class, and the short slot is free for the next poll. What stays in a short
// slot is short.
//
//	pumps     follow codex while it works, for hours
//	watches   look after what waits, for days
//	bulk      move folders, archives and programs
//	commands  carry out commands of people, which take as long as they take
//	short     all else
//
// There are no task queues of classes: workers of an earlier release would not poll them.
//
// # When a class is full
//
// An activity that finds its class full has not begun, and nothing that its code does has
// happened. It waits in the worker for some time and sends heartbeats with the details of the
// last attempt. Pumps and watches do not wait, because a slot of theirs may take hours to
// become free. Then the attempt ends with the error [protocol.ErrTypeBusy], and Temporal
// gives the activity to a worker again after a second or more; other workers may have room.
//
// Such an attempt is no attempt of the work:
//
//   - An activity with a limit of attempts is not sent back. It waits for half of the time
//     that the attempt has, and is then sent back so that the next attempt has all of its time.
//     When too many wait, they do so in short slots, and the worker polls no more.
//   - The number of attempts that were sent back is kept in the heartbeat details, behind those
//     of the activity. The activity sees its own details, and in its Info the number of attempts
//     that did begin. Temporal's number counts if an attempt in between kept no record, for
//     example one of an earlier release. So a later attempt always has a higher number.
//   - An activity that is sent back is not counted among failures.
//
// Pumps with something that a person decided may use some slots more than the limit, so that
// decisions reach codex while all pumps are in use.
package slots
