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
//	                                   interrupted (a turn was cut off; a message goes on)
//	                                   failed      (it could not begin, or cannot go on)
//
// While a turn runs, one activity (the pump) is attached to codex's journal.
// While codex waits for a person, nothing is: no activity, no channel.
//
// # Which message may come when
//
// Signals and updates of the same name take the same JSON. A refused update
// costs no event; a refused signal is kept in Refusals. "ends" is closing,
// closed or failed.
//
//	message (queue)   any state but ends      → queued, answered with its turn number
//	                  same id again           → the first answer again
//	                  ends                    → refused
//	message (steer)   running, waiting        → goes into the running turn
//	                  any other               → refused
//	decide            approval open, digest equal, outcome offered → decided
//	                  decided, expired, void  → refused
//	                  unknown approval        → not found
//	interrupt         running, waiting        → the turn is interrupted, also before codex acknowledged it
//	                  any other               → refused
//	close             any state but ends      → the turn is interrupted, then all is saved, wiped and given back
//	                  closing, with discard   → what cannot be saved is given up
//	                  closing, closed, failed → refused
//
// # Events
//
// A plain turn costs 13 events when it comes by update (12 by signal): update
// 2, workflow task 3, attributes 1, pump 3, workflow task 3, attributes 1. An
// approval adds at most 15: pump 3, task 3, attributes 1, timer 2, update 2,
// task 3, attributes 1.
package workflows
