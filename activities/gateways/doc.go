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
// Nobody listens at the port while no Gate is open. Another user of the host could then
// listen there and answer codex as a model would; codex does not recognise the gateway. Give
// hosts of such sessions no other users than those whom you trust with the work.
package gateways
