// Command ticketdesk is an example of a webhook for a tool of a team: codex opens tickets with it.
//
//	ticketdesk -listen 127.0.0.1:8080 -secret-file tickets.secret -file tickets.jsonl
//
// It checks the signature of each call before it reads anything else, and refuses a call whose
// timestamp is more than five minutes away. It carries out each webhook-id once: the line of a
// ticket has the id of its call, so what the program has done and what it remembers cannot differ,
// even if it dies in between. To an id that it knows it gives the same answer again.
//
// It needs the standard library alone. See docs/how-to/give-codex-tools-of-your-own.md.
package main
