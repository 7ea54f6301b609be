// Package owned keeps blobs in the store for as long as somebody can need them:
// what messages, batches and schedules name and no workflow can carry.
//
// Blobs lie in folders. A folder is of one owner (a session, a batch, a schedule:
// a workflow or a Schedule of Temporal's) and of one occasion: its name ends in
// something random, or in that of a run, so that no name is ever used twice, by
// nobody. Who begins with what is in another one's folder holds it first.
//
//	owned/<kind>.<id>.<occasion>/<family>/<name>   a blob
//	owned/<kind>.<id>.<occasion>/held/<kind>.<id>  who else needs the folder
//	owned/<kind>.<id>.<occasion>/missed            its owners were not found, since then
//	owned/<kind>.<id>.<occasion>/condemned         nobody is to begin with it any more
//
// A folder goes, all of it, when neither its owner nor anybody who holds it is
// known to Temporal any more: an ended workflow needs its blobs for as long as it
// can be asked, or tried again. That has to be so twice, a day apart, with
// nothing written there for a week. A store compares nothing, so each side
// writes down what it is about to do, and then looks what the other has written:
//
//   - Who holds writes that down, and then looks whether the folder is condemned.
//     If it is not, it stays for as long as he is there.
//   - Who sweeps condemns, then looks who holds, and asks them all. Nobody takes a
//     condemnation back: what was read before it may be acted upon at any later
//     time, by a sweep that was stopped and goes on. Where somebody turns out to
//     need the folder after all it stays, and takes no one else.
//
// Because names are never used again nothing can be deleted that somebody wrote
// anew; the price is that the same file given to two sessions is there twice.
// Every error of asking keeps the folder. So does a store that workers of two
// namespaces of Temporal use, since neither knows the other's sessions.
package owned
