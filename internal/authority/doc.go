// Package authority says whose commands count.
//
// A [Keeper] has the access file of a worker and reads it again when it changes. A file with
// mistakes does not replace the last good one. Workflow code asks the keeper through [Of],
// in the validators of updates and in recorded side effects, and never in a replay. A worker
// without a keeper takes every command: then who can reach Temporal with its payload key
// may give commands, as in a stack of one person.
package authority
