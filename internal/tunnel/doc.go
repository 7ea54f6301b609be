// Package tunnel carries TCP connections over one connection between two programs, such as
// from ctl to a worker, which then connects to a port of a host.
//
// A [Client] opens connections, and [Serve] connects each of them to where its Options say. Both
// directions of a connection end apart from each other, as those of TCP do. The two programs
// speak HTTP/2 without TLS on the connection that they have: the caller protects it. Each
// connection is a stream, whose request body goes to the far end. The response body has what
// comes back, in frames:
//
//	'd' LENGTH data  bytes
//	'e' 0            the far end sends nothing more
//	'x' LENGTH JSON  the connection is over, and why: a Failure
//
// LENGTH has two bytes, the higher one first. If the far end cannot be reached, the status is 502
// and the body is a Failure.
//
// HTTP/2 bounds what waits in memory for a slow reader. Each direction of each connection waits
// for its own reader only, because all connections together may keep as much as each of them may.
// A connection that carries nothing for Options.Idle is ended, and so is a tunnel without a
// connection for Options.Unused.
package tunnel
