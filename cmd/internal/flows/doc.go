// Package flows talks to Fairlead's workflows over Temporal, for ctl and for the HTTP API: it
// asks them, sends them messages, starts sessions, and explains what goes wrong in the words of
// package errkind.
//
// A [Conn] asks a worker. If none answers, it replays the history that Temporal keeps, and a
// message becomes a signal, which Temporal keeps for the next worker. What the program itself
// decides is its [Side]: how long to wait, who signs, and where notes go.
//
// A [Keyed] request has a key, such as --key of ctl or Idempotency-Key of HTTP. Temporal keeps
// which request took the key, so a repetition is recognized by any process.
package flows
