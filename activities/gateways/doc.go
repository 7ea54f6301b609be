// Package gateways opens the model gateway of a session: a port on the session's host, by
// which codex there asks this worker for the model (see internal/gateway).
//
// The host gets neither a key nor a login. A [Gate] is open while a pump talks to codex. It
// has a forward under the session's fence, so that the next pump's Gate, on whatever worker,
// ends it, and a token, which it writes into CODEX_HOME. The token is replaced from time to
// time and whenever the forward was established again. It is worthless once the Gate is
// closed.
//
// A pump may end while codex still asks the model, because a person must decide about one of
// several things that codex does at a time. Then the Gate stays open in the worker until
// codex has its answers, and the next pump of the session on this worker goes on with it.
//
// While no Gate is open, nobody listens at the port, and codex sends no request: its command for
// the token (see package seeds) waits until sshd listens at the port again. It waits as long as
// no worker is up. When a worker is back, the turn goes on within seconds. The command also
// waits while a program of another user listens at the port. But a request may already have its
// token, for example a repeated one. codex sends such a request to any program that listens at
// the port, because it cannot recognise the gateway. A program that takes the port within these
// seconds could answer in place of the model. So let only users whom you trust with the work
// onto the hosts of such sessions.
//
// # The way out
//
// A session may ask for a way out of its commands to a few hosts ([CheckEgress]). It leads by the same
// port (see internal/egress). caller.sh says on the host which connections come from processes below
// those that were started for the session. So a session's way out belongs to no other session of the
// same user, and no command has a secret for it. A Gate with a way out stays open for some seconds after
// a pump that ended within a turn, and as long as its connections carry something.
package gateways
