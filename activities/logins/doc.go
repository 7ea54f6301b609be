// Package logins has the activities on seeds: it captures them from hosts, refreshes and
// verifies them, saves what codex rotates, and recovers logins from hosts whose sessions have
// ended. A pump has a Keeper, which saves logins meanwhile.
//
// # Logins that rotate
//
// The refresh token of a ChatGPT login can be used once. When codex has used it on a host,
// the new login there is the only good copy until it is in the store and the seed's workflow
// has made it a generation. A caller may rely on this:
//
//   - auth.json is looked at before a pump listens to codex, every eight seconds during the
//     conversation, after it and before its result is returned, whenever codex is stopped,
//     and before anything is wiped. While a session waits or is idle, its host's WatchHost
//     compares two file times on the host about every eight seconds, and reads an auth.json
//     that has changed. If the worker of a WatchHost dies, this is noticed after ten seconds;
//   - only a valid, later login of the same account becomes the next generation, and only by
//     compare and set on the generation that it was made from and the epoch of the lease. No
//     login is taken from a session that has lost the lease (ErrTypeSeedFenced,
//     RunPumpResult.SeedLost): a pump that finds this is cancelled, and the session stops
//     codex and asks for the seed again. PrepareSession then saves the login on the host
//     under the new lease before codex is started. A half-written file is read again. A
//     logged-out file changes nothing. A login of another account is refused and reported;
//   - the seed is marked as rotated before the blob is written, with the reason if that
//     fails, and the blob is read back before the pointer moves. A kill between any two
//     steps loses nothing, and the next look goes on;
//   - a turn's result waits at most ten seconds for this, and is returned in any case;
//   - no login is wiped before it is saved: PrepareSession, CloseSession, WipeLeftover and
//     RecoverSeed fail instead and leave it there. If an earlier workflow of the seed granted
//     the lease (SeedNow.First), closing, parking and WipeLeftover save the login first. The
//     seed takes it only while nobody holds the seed. CloseSession with Discard gives up only
//     what cannot be saved, and sets Unsaved;
//   - a token that codex has just rotated is hidden like the planted one, and so are tokens of
//     former generations. For this, auth.json is looked at before a finished item or a request
//     is folded, so before it is stored, shown or returned to a workflow. This costs a round
//     trip for each item and request, except for those that came before the last look. Three
//     gaps remain. Pieces of a text that streams, which are stored nowhere, may show such a
//     token to live viewers for two seconds. If a host does not answer such a look within
//     five seconds, the pump logs this and does not wait longer. A token is not known if it
//     was rotated away again between two looks, or if a command changed it before printing it
//     (reversed, in pieces).
//
// Before RefreshSeed sends the request, it stores that the token is about to be used. It
// stores the new login before it ends. An attempt that follows a killed one finds the answer,
// or returns the verdict "lost". RecoverSeed is for a lease whose holder has ended without
// saving its login.
package logins
