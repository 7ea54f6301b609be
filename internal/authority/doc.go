// Package authority says whose commands count.
//
// A [Keeper] has the access file of a worker and reads it again when it changes. A file with
// mistakes does not replace the last good one. Workflow code asks the keeper through [Of],
// in the validators of updates and in recorded side effects, and never in a replay. A worker
// without a keeper takes every command: then everybody who can reach Temporal with its
// payload key may give commands, as in a stack of one person.
//
// Each signal, update and type of workflow has a [Class], which says from whom it counts:
//
//   - a person signs it. A signed start counts once (see [Claim]); a [StandingCommand], such as
//     what a schedule starts, counts whenever the access file of that moment allows it;
//   - a worker marks it (see [payload.Workers]). The payload codec refuses it otherwise, before
//     a handler sees it. What has no class needs a mark;
//   - a workflow that is started as a child, or by a run that continues as new, needs an input
//     with a mark, whatever its class: cron, a retry policy and workflows of others repeat or
//     begin workflows in the same way.
//
// A replay runs no validators, so it takes an update only if the history proves that a worker of
// ours accepted it (see [payload.Accepted]).
//
// The result of an update is that proof, and costs no event. An update whose handler waits
// (slowUpdates) has no result yet, and one that fails has none at all. Each of these costs the event
// of [payload.Prove]. The event also says whether the store took the audit record: the code that
// makes its value writes the record first (Options.Store), for a second at most. So such a command
// costs one event, as others do for the local activity of the [Ledger]. If the store is slower, the
// value says so, the ledger writes the record as it does otherwise, and the command costs two.
//
// The proof cannot be the result of the local activity. It must be in the batch of events that
// accepts the update, whether or not the store takes records, and names one update. The local
// activity has a result only if the store took the records, and writes those of all commands
// that wait. But the event of the proof can say whether the store took the record, because the
// event is recorded in any case.
//
// Measured with a real server (cost_test.go), in addition to Temporal's own two events of an
// update: an update that answers at once, one that fails and one that waits cost 1 event each.
// If the store does not answer in time, they cost 1, 2 and 2. In a session, records cost no
// event (activities carry them), so `session push`, and an update that fails there, cost the 1
// of the proof.
//
// The proof also has the digest of the access file that judged the update ([payload.Note]), for its
// audit record: a replay runs no validators, and a file may have changed since.
//
// A [Ledger] records the accepted commands of a workflow. [Keeper.OnLoad] hands over each access
// file that comes into force.
package authority
