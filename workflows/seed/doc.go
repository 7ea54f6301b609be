// Package seed has the workflows Seed, SeedPool, CaptureSeed and LoginSeed. A Seed knows
// the newest generation of a credential and its holders. A SeedPool lends any free and
// healthy seed of several.
//
// A Seed ends when it is deleted and its fetches and updates have ended. Sessions ask for
// seeds by signal; the messages are in workflows/internal/lease.
//
// # Who has a seed
//
// A login that rotates has one holder at a time, any other seed as many as its share says.
// Leases are granted in the order of requests. Messages with an older epoch change nothing.
//
//	free        the next in line gets it
//	held        if the login rotates, requests wait; save_seed and rotated_seed are
//	            checked against the (generation, epoch) of the lease
//	rotated     codex made a login that is not saved yet: nobody else gets the seed
//	recovering  its holder ended, or gave it back and could not show that the login is
//	            saved and wiped: RecoverSeed fetches the login from the host, however
//	            long that takes, before anybody else gets the seed
//	suspect     codex could not log in with it, or a rotated login is lost: requests
//	            wait and are told what to do. This ends with a turn that begins later
//	            and succeeds, a verification, revive_seed or an import.
//	dead        the issuer says that the login is not valid: requests are refused
//
// If a seed's workflow was terminated and started anew, it does not know the leases of the
// former workflow, but recognizes their epochs. The login on a host under such a lease may
// be the only copy, so it is not wiped. It is saved when codex has ended there and nobody
// holds the seed, or fetched when its session asks for the seed again. revive_seed gives it
// up.
//
// A lease does not expire. The seed checks every five minutes, and when somebody waits,
// whether its holders still run. An API key needs no recovery, because it exists elsewhere
// too; the host's pool has it wiped.
//
// # How much of a login is used
//
// A seed learns the usage windows of its login's account from the release of each lease and
// from each verification. From 95 % of a window on, it is nearly used up; a turn that met
// the end of the quota makes it used up until the quota is there again. Only pools care.
//
// A SeedPool holds no lease. For the first in its line, it asks the free, healthy seed that
// was used least recently to grant a lease at once or not at all. So direct requests to
// that seed are not held up. The pool lends a nearly used-up seed only if every healthy seed is
// nearly used up or used up. It does not lend a used-up seed.
package seed
