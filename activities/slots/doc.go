// Package slots divides the activity slots of a worker into classes, so that activities which
// take hours or days never keep other ones waiting.
//
// A worker polls one task queue, and learns the type of an activity only when it has it. So
// each poll holds a slot for short activities. When the type is known, the activity moves to
// a slot of its class, and the short slot is free for the next poll.
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
// A pump or a watch that finds its class full has not begun, and nothing that its code does has
// happened. The attempt ends with the error [protocol.ErrTypeBusy], and Temporal gives the
// activity to a worker again after a second or more; other workers may have room. Their attempts
// are not limited, and Temporal keeps the heartbeat details of the last attempt that sent some. A
// later attempt has a higher number, as after a lost worker, and therefore first reads what codex
// has been told.
//
// All other activities stay in the short slot that they came with. When no short slot is free,
// the worker does not poll. Queued activities go to other workers, or wait in Temporal.
//
// Pumps with something that a person decided may use some slots more than the limit, so that
// decisions reach codex while all pumps are in use.
package slots
