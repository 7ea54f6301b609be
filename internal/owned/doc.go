// Package owned keeps blobs in the store for as long as a workflow or Schedule can need
// them. Messages, batches and schedules refer to these blobs, which are too large for a
// workflow.
//
// A folder of blobs has one owner (a session, a batch or a schedule). Its name ends in
// random digits or in digits made from a run, so no name is ever used twice. A session or
// batch that needs a folder of another owner must first hold it.
//
//	owned/<kind>.<id>.<occasion>/<family>/<name>   a blob
//	owned/<kind>.<id>.<occasion>/held/<kind>.<id>  another owner needs the folder
//	owned/<kind>.<id>.<occasion>/missed            nobody has been known to need the folder since this blob was written
//	owned/<kind>.<id>.<occasion>/condemned         nobody may start to use the folder any more
//
// The occasion of a folder that a principal uploads to ends in a dash and the principal's tag (see
// [Tag]). Where commands are signed, nobody else's commands may name its blobs.
//
// A folder is deleted as a whole when Temporal knows neither its owner nor any holder,
// twice, a day apart, and nothing was written to the folder for a week. An ended workflow
// still needs its blobs for as long as it can be queried or reset. The store has no
// compare-and-swap, so each side first writes its intent, and then checks what the other
// side has written:
//
//   - A holder writes its hold, then checks whether the folder is condemned. If not, the
//     folder stays for as long as the holder exists.
//   - A sweep condemns the folder, then lists the holders and asks Temporal about them. If
//     anybody needs the folder, it stays, but takes no new holders. A condemnation is never
//     withdrawn, because a sweep that was stopped may continue at any time, with what it
//     read before.
//
// If Temporal cannot be asked, folders stay. Names are never reused, so a file that is
// given to two sessions is stored twice.
package owned
