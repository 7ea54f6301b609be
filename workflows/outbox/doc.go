// Package outbox has the workflow that tells people what happened: one Outbox in each zone,
// outbox/<zone>. Workers with notification rules start it.
//
// A notice is one event for one person by one channel. Its state is pending, and then sent,
// failed, suppressed or unknown, with the reason. It is one of these as soon as the outbox knows
// the event, so nothing is lost without a word. An event has a key, and the outbox knows the keys
// of all events that can still be found; so an event becomes notices once.
//
// Notices for one person by one channel are sent in messages: each in one of its own as long as
// the limit of the rules allows it, and together in one message above that. A message whose
// receiver did not take it is tried again, with growing pauses, for as long as the rules say, or
// until its approvals expire. A message that the receiver may have taken is sent again only if
// the receiver drops doubles; otherwise its notices are unknown.
//
// # Messages
//
//	test_notify (update)     sends a test to a channel, a person or all
//	notices (query)          what waits, and the newest that is done
//	notify_rules (query)     the rules in force
//
// # Events
//
// Sessions, batches, hosts and seeds get no event for it: they are queried. An outbox at rest
// has 6 events in half an hour, for the activity that watches. Each look that finds something
// has 6, whatever it finds, and each attempt to send a message 6. A pause before another attempt
// has 5. The run continues as new when Temporal suggests it, once no message is being sent.
package outbox
