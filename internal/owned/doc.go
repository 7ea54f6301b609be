// Package owned keeps blobs in the store for as long as anybody can need them: blobs
// that messages, batches and schedules refer to because no workflow can carry them.
//
// Blobs are in folders. A folder has one owner (a session or batch, which is a
// workflow, or a schedule, which is a Schedule of Temporal) and serves one occasion.
// Its name ends in random digits or in digits made from a run, so that no name is
// ever used twice. Whoever needs a folder of another owner must hold it first.
//
//	owned/<kind>.<id>.<occasion>/<family>/<name>   a blob
//	owned/<kind>.<id>.<occasion>/held/<kind>.<id>  who else needs the folder
//	owned/<kind>.<id>.<occasion>/missed            since when nobody is known to need it
//	owned/<kind>.<id>.<occasion>/condemned         nobody may start to use it any more
//
// A folder is deleted as a whole when Temporal knows neither its owner nor any holder
// any more. An ended workflow still needs its blobs for as long as it can be queried
// or reset. This must hold twice, a day apart, with nothing written to the folder for
// a week. The store has no compare-and-swap, so each side first writes down what it
// is about to do, and then checks what the other side has written:
//
//   - A holder writes its hold, then checks whether the folder is condemned. If it is
//     not, the folder stays for as long as the holder exists.
//   - A sweep condemns the folder, then lists the holders and asks Temporal about all
//     of them. A condemnation is never withdrawn, because a sweep that was stopped may
//     continue at any later time from what it read before. If somebody turns out to
//     need the folder, it stays, but takes no new holders.
//
// Because names are never reused, a sweep cannot delete what somebody wrote anew. The
// price is that a file given to two sessions is stored twice. Any error while asking
// keeps the folder. So does a store that is used by workers of two namespaces of
// Temporal, because neither knows the sessions of the other.
package owned
