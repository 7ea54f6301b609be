// Package notify tells people what happened in sessions, batches, hosts and seeds: who is told
// what by which channel, and how a message is sent.
//
// [Rules] is a file of the worker. [Rules.Plan] applies it to an event and gives the notices,
// each for one person and one channel. [Keeper] has the rules in force, and reads the file
// again when it changes; a broken file leaves the last good one in force.
//
// [Sender.Send] makes one attempt to send one message and says what came of it: sent, failed,
// to be tried again, or unknown. Unknown means that the server may have taken the message. Only
// for a channel that drops doubles by the message's id ([Rules.Repeatable]) may such a message
// be sent again.
//
// A message says what happened and where, with a link. It has no command, no file name and
// nothing that the model wrote, unless the rules have details: summary. Secrets of channels are
// read from files for each attempt; no error and no [Outcome] contains one, nor an address.
//
// No channel reaches a private address that the rules do not allow: the guard looks at each
// address that is dialled, after names are resolved. Redirects are not followed.
package notify
