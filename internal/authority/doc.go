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
// (slowUpdates) has no result yet, so it costs the event of [payload.Prove], beside the one of its
// record in the [Ledger]. The two are not one: the proof must be in the batch of events that
// accepts the update, whether or not the store takes records, and names one update. The local
// activity of the ledger has a result only if the store took the records, and it writes those of
// all commands that wait. If its result were the proof, an update could stay without one while
// the store is away, and a replay would then refuse the workflow.
//
// A [Ledger] records the accepted commands of a workflow. [Keeper.OnLoad] hands over each access
// file that comes into force.
package authority
