// Package workflows holds the truth about sessions, hosts and seeds, and
// decides what happens next. Activities do it; hosts keep the bytes.
//
// The nouns: a Session is one durable conversation and the only owner of its
// codex process; a HostPool is the inventory of a zone and hands out slots; a
// Seed names the newest generation of a credential and who holds it; host
// tasks (check, provision, exec) are short, so that they are on record.
//
// # The life of a session
//
//	queued → preparing → starting → idle ⇄ running ⇄ waiting → closing → closed
//	                          resuming    (codex is started again)
//	                          interrupted (a turn was cut off, or codex cannot go on; a message tries again)
//	                          failed      (it could not begin, or the host will not have us)
//
// While a turn runs, one activity (the pump) is attached to codex's journal.
// While codex waits for a person, nothing is: no activity, no channel. One
// activity for the whole host, which its pool keeps going while the host has
// sessions, looks at all such processes from time to time. The session to whose
// process something happened gets a signal, stirred, and looks what it was with
// a pump; to all others it costs nothing.
//
// # Which message may come when
//
// Signals and updates of the same name take the same JSON. A refused update
// costs no event; a refused signal is kept in Refusals. "ends" is closing,
// closed or failed.
//
//	message (queue)   any state but ends      → queued, answered with its turn number
//	                  same id, same text      → the first answer again, also while closing
//	                  same id, other text     → refused
//	                  ends                    → refused
//	message (steer)   running, waiting        → goes into the running turn, or becomes a turn
//	                                            of its own if that one ends first
//	                  any other               → refused
//	decide            approval open, digest equal, outcome offered → decided
//	                  decided, expired, void  → refused
//	                  unknown approval        → not found
//	                  ends                    → refused
//	interrupt         running, waiting        → the turn is interrupted, also before codex acknowledged it;
//	                                            again: asked again
//	                  any other               → refused
//	close             any state but ends      → the turn is interrupted, then all is saved, wiped and given back
//	                  closing, failed; with discard → what cannot be saved is given up
//	                  closing, failed; without      → refused
//	stirred (from a   waiting, of this process and beyond what is known of it → a pump looks;
//	watch)            while a pump is attached, of another process, any other state → nothing
//	any               closed, or failed and cleaned up → refused by Temporal: the workflow has ended
//
// What cannot be cleaned up on a host stays, and is tried again, until it can
// or somebody says discard; seed and slot are held so long.
//
// # Bounds
//
// All that a session carries fits into one value of Temporal's (2 MiB): 1000
// queued messages, 768 KiB of their text, 256 KiB for one, the last 10 turns
// and 40 approvals. A run goes over into the next one when its history is long,
// between any two steps, also while a turn runs; nothing that was taken is lost
// or done twice.
//
// # Events
//
// A plain turn costs 13 events when it comes by update (12 by signal): update
// 2, workflow task 3, attributes 1, pump 3, workflow task 3, attributes 1. An
// approval adds 14 when it is decided by update (13 by signal): pump 3, task 3,
// timer 2, update 2, task 3, attributes 1 of the two. A host with sessions costs
// its pool one event, and six when they are long gone.
package workflows
