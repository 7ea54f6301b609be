// Package hostpool is the workflow HostPool: the inventory of a zone. It grants slots of
// hosts to sessions, watches hosts, and wipes what sessions left there. The package also
// has the host tasks.
//
// A pool never ends. Sessions ask for slots by signal; see workflows/internal/lease.
//
// # Who gets a slot
//
// Requests stand in a line (the type line, which does not use Temporal). A request is
// refused at once if no host can ever meet it. Cordoned and broken hosts count as hosts
// that can. A host that was never probed is taken to meet any condition that a probe can
// check. These rules order the other requests:
//
//	priority  1 first, 5 last; but about one slot in ten is granted without regard to
//	          priority, one in a hundred to the request that waits longest
//	tenants   each tenant in line is entitled to a share of all slots, by its weight.
//	          The tenant that has least of its share comes first. Odd slots go to the
//	          tenants in turn, by weight; unwanted ones to the other tenants
//	limits    how many slots a tenant, or the users of a seed, may hold at a time
//	a pause   nothing is granted, not even to sessions that come back from parking
//
// A waiting session is told what it waits for: at once, when its place is an order of
// magnitude nearer, when the zone is paused or resumed, and, near the head of the line,
// whenever the reason changes. It asks again after five minutes, then less and less often,
// finally every hour. So it also gets a place with a pool or a seed whose workflow was
// started anew.
//
// # What is left on a lost host
//
// A session that ended while its host was away, or whose workflow was terminated, may have
// left its credential on the host. The pool records a Leftover and tries to wipe it: at
// once, with every check for ended holders (every five minutes), and when a check, a
// provision or the watch says that the host is back. It keeps the proof. If the seed still
// waits for the login, the seed recovers it first. Work is removed only if somebody said
// discard, or if its archive is in the store. A new session of the same name gets the host
// only after the wipe. A host with leftovers can be removed only by force.
//
// A pool does not know the leftovers of a host that was removed by force and came back, or
// of the time before its workflow was started anew. A Schedule of each zone looks for them.
// A folder is a leftover if Temporal knows a session of that name that ran when the
// folder's generation began and has ended, the pool does not know the folder, and the
// folder's mark was not written for a while. Every other folder is listed (UnknownFolder)
// and never touched: it may belong to another installation.
package hostpool
