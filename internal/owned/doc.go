// Package owned keeps blobs in the store for as long as anybody can need them. Messages,
// batches and schedules refer to these blobs, which are too large for a workflow.
//
// Blobs are in folders. A folder has one owner (a session or batch, which is a workflow, or
// a schedule, which is a Schedule of Temporal) and serves one occasion. Its name ends in
// random digits or in digits made from a run, so that no name is ever used twice. A session
// or batch that needs a folder of another owner must first hold the folder.
//
//	owned/<kind>.<id>.<occasion>/<family>/<name>   a blob
//	owned/<kind>.<id>.<occasion>/held/<kind>.<id>  another owner needs the folder
//	owned/<kind>.<id>.<occasion>/missed            nobody has been known to need the folder since this blob was written
//	owned/<kind>.<id>.<occasion>/condemned         nobody may start to use the folder any more
//
// A folder is deleted as a whole when Temporal knows neither its owner nor any holder any
// more. An ended workflow still needs its blobs for as long as it can be queried or reset.
// Temporal is asked twice, a day apart, and must not know them either time. And nothing may
// have been written to the folder for a week. The store has no compare-and-swap, so each
// side first writes down what it is about to do, and then checks what the other side has
// written:
//
//   - A holder writes its hold, then checks whether the folder is condemned. If it is
//     not, the folder stays for as long as the holder exists.
//   - A sweep condemns the folder, then lists the holders and asks Temporal about all of
//     them. A condemnation is never withdrawn, because a sweep that was stopped may
//     continue at any later time, with what it read before. If the sweep finds that
//     somebody needs the folder, the folder stays, but takes no new holders.
//
// Names are never reused, so a sweep cannot delete newly written data. The price is that a
// file that is given to two sessions is stored twice. If Temporal cannot be asked, the
// folder stays. If workers of two namespaces of Temporal use the store, all folders stay,
// because neither namespace knows the sessions of the other.
package owned
