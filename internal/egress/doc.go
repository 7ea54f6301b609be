// Package egress lets the programs of a session on a host reach a few other hosts, such as a git server
// or a package registry, although the host has no way out. A [Proxy] answers HTTP CONNECT requests on
// connections that come from the session's host, and connects from the worker.
//
// # Who may use it
//
// Other users of the host can connect to the port. So each connection is checked first: [Options.Callers]
// says whether it belongs to the session. All connections that wait for that are in one question, so that a
// flood of strangers' connections delays those of the session by a few questions only. There is no token, because commands would get it in
// their environment or in a file, where it could be stolen.
//
// # What it reaches
//
// A target is a name and a port, and [Options.Permits] must allow it. The proxy resolves the name itself,
// checks each address, and connects to an address that it has checked. It does not ask a name
// server a second time. Addresses that are not public are refused, unless [Options.Private] has them: loopback,
// link-local, private, shared, multicast and reserved addresses, those of metadata services, those of this
// machine, and IPv6 addresses with such an IPv4 address in them. Methods other than CONNECT are refused.
//
// # Bounds
//
// Connections at once, the time for the check, the name and the connection, and silence are bounded by
// [Limits]. The two directions of a connection end apart from each other. An [Outcome] tells of each
// connection, refused ones too, and says which were cut.
package egress
