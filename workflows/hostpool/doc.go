// Package hostpool is the workflow HostPool: the inventory of a zone. It grants slots of
// hosts to sessions, watches hosts, and wipes what sessions left there. The package also
// has the host tasks: short workflows that check or provision a host, scan its keys, or run
// one command on it, so that they are on record.
//
// A pool never ends. Sessions ask for slots by signal; the messages are in
// workflows/internal/lease.
//
// # Who gets a slot
//
// Requests to a zone's pool stand in a line (the type line, which does not use Temporal). A
// request is refused at once if no host can ever meet it. Cordoned and broken hosts also
// count as hosts that can meet it. A host that was never probed is taken to meet any
// condition that a probe can check. These rules order the other requests:
//
//	priority    1 first, 5 last; about one slot in ten is granted without regard to priority,
//	            one in a hundred to the request that waits longest, so that none waits for ever
//	tenants     each tenant that wants slots is entitled to a share of all slots, by
//	            its weight. The tenant that has least of its share comes first. Slots that
//	            do not divide evenly go to the tenants in turn, by weight. Slots that a
//	            tenant does not want go to the others
//	limits      how many slots a tenant, or the users of a seed, may hold at a time
//	a pause     nothing is granted, not even to sessions that come back from parking
//
// A waiting session is told at once what it waits for. It is told again when its place is
// an order of magnitude nearer, when the zone is paused or resumed, and, at the head of the
// line, whenever the reason changes. So a grant costs few signals even if the line is long.
// The pool's view has the exact places. The session asks again after five minutes and then
// less and less often, finally every hour. So it also gets a place in the line of a pool or
// a seed whose workflow was terminated and started anew. If a line is full, the answer says
// when to ask again, and the session does so.
//
// A pool that begins without a former run asks the running sessions of its zone which slots
// they hold. It grants no slots until they have answered or 30 seconds have passed.
//
// # What is left on a lost host
//
// A session that ended while its host was away, or whose workflow was terminated, may have
// left its credential on the host. The pool records a Leftover, with what the session
// reported, and tries to wipe it: at once, with every check for ended holders (every five
// minutes), and when a check, a provision or the host's watch says that the host is back.
// The pool keeps the proof: when the host was wiped, what was removed and what stays. If
// the seed still waits for the login, the seed recovers it first, and the pool wipes later.
// Work is removed only if somebody said discard, or if its archive is in the store. A new
// session of the same name gets the host only after the wipe. A host with leftovers can be
// removed from the inventory only by force.
//
// A pool forgets leftovers if a host was removed by force and came back, or if the pool's
// workflow was started anew. A Schedule of each zone finds them by looking at the hosts. A
// folder is a leftover under three conditions: Temporal knows a session of that name that
// ran when the folder's generation began and has ended; the pool does not know the folder;
// and the folder's mark was not written for a while. The pool decides, and skips a folder
// that it has learnt of since the look. Every other folder is listed (UnknownFolder) and
// never touched, because it may belong to another installation.
package hostpool
