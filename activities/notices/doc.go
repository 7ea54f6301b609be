// Package notices has the activities of outboxes: to find what people are to be told of, and to
// tell them.
//
// WatchEvents asks nothing of sessions but queries, which leave no event in their histories. It
// looks at Temporal's lists, and at the sessions, hosts and seeds that they name. Each event has
// a time that does not change, and a key. An event counts if its time is after the cursor less
// the overlap, and if the outbox has not seen its key. So an event is found however late a list
// shows it within the overlap, and once. If something cannot be asked, the cursor stays where it
// is until it can, at most deafFor.
//
// SendNotice makes one attempt to send a message. Before it sends, it tells Temporal so, by a
// heartbeat that it waits for. If its worker dies then, the next attempt knows that the message
// may have been taken. It sends it again only by channels whose receiver drops doubles.
package notices
