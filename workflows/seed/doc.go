// Package seed has the workflows Seed and SeedPool, and the short workflows that capture a
// seed from a host or log in there. A Seed knows the newest generation of a credential and
// its holders. A SeedPool lends any free and healthy seed of several.
//
// A Seed ends when it is deleted and no holder can write to it any more. Sessions ask for
// seeds by signal; the messages are in workflows/internal/lease.
//
// # Who has a seed
//
// A login that rotates has one holder at a time. Any other seed has at most as many holders
// as its share says. Leases are granted in the order of requests. Each lease has its own
// epoch, and messages with an older epoch change nothing.
//
//	free        the next in line gets it
//	held        if the login rotates, requests wait; save_seed and rotated_seed are
//	            checked against the (generation, epoch) of the lease
//	rotated     codex made a login that is not saved yet: until then nobody else gets the seed
//	recovering  its holder ended, or gave it back and could not show that the login is
//	            saved and wiped: RecoverSeed fetches the present login from the host,
//	            however long that takes, before anybody else gets the seed
//	suspect     codex could not log in with it, or a rotated login is lost: requests
//	            wait and are told what to do. This ends with a turn that begins later
//	            and succeeds, a verification, revive_seed or an import.
//	dead        the issuer says that the login is not valid: requests are refused
//
// If a seed's workflow was terminated and started anew, it does not know the leases that
// the former workflow granted. The login on a host under such a lease may be the only copy,
// so it is not wiped merely because its holder is unknown. The epoch of a lease says which
// workflow granted it. The login is saved when codex has ended on that host and nobody
// holds the seed, or it is fetched when its session asks for the seed again. Until then it
// stays on the host. revive_seed gives it up.
//
// A lease does not expire. Instead, the seed checks whether its holders still run, every
// five minutes and when somebody has to wait. An API key needs no recovery, because it
// exists elsewhere too. The pool of the host makes sure that it is wiped.
//
// A SeedPool holds no lease. It keeps a line of requests. For the first one, it asks the
// free, healthy seed that was used least recently to grant a lease at once or not at all.
// So direct requests to that seed are not held up.
package seed
