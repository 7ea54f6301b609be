// Package logins has the activities on seeds: to capture, refresh and verify them, to save
// what codex rotates, and to recover logins of sessions that have ended. During a pump, a
// Keeper saves logins.
//
// # Logins that rotate
//
// A ChatGPT login's refresh token can be used once. When codex has used it, the new login
// on the host is the only good copy until it is in the store and the seed's workflow has
// made it a generation. Callers may rely on this:
//
//   - auth.json is looked at before a pump listens to codex, every eight seconds meanwhile,
//     before its result is returned, whenever codex is stopped, and before anything is
//     wiped. While a session waits or is idle, WatchHost compares two file times about
//     every eight seconds, and reads an auth.json that has changed. The death of its worker
//     is noticed after ten seconds;
//   - only a valid, later login of the same account becomes the next generation, by compare
//     and set on the generation that it was made from and the epoch of the lease. If the
//     session has lost the lease (ErrTypeSeedFenced, RunPumpResult.SeedLost), its pump is
//     cancelled, and the session stops codex and asks for the seed again. PrepareSession
//     then saves the host's login under the new lease before codex starts. A half-written
//     file is read again. A logged-out file changes nothing. A login of another account is
//     refused and reported;
//   - the seed is marked as rotated before the blob is written, with the reason if that
//     fails, and the blob is read back before the pointer moves. A kill between any two
//     steps loses nothing;
//   - a turn's result waits at most ten seconds for this;
//   - no login is wiped before it is saved: PrepareSession, CloseSession, WipeLeftover and
//     RecoverSeed fail instead. If an earlier workflow of the seed granted the lease
//     (SeedNow.First), closing, parking and WipeLeftover save the login first, which the
//     seed takes only while nobody holds it. CloseSession with Discard gives up only what
//     cannot be saved, and sets Unsaved;
//   - a token that codex has just rotated is hidden like the planted one, and so are those
//     of former generations: auth.json is looked at before a finished item or a request is
//     folded, so before it is stored, shown or returned to a workflow. Three gaps remain.
//     Pieces of a text that streams, which are stored nowhere, may show such a token to
//     live viewers for two seconds. A look that the host does not answer within five
//     seconds is logged and given up. A token is not known if it was rotated away between
//     two looks, or if a command changed it before printing it (reversed, in pieces).
package logins
