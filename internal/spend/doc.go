// Package spend counts what sessions use of models, and keeps it within budgets that many
// workers share.
//
// An [Account] is what a budget bounds: a session, a seed or a tenant. A [Ledger] belongs to
// one worker process. The count of an account is the sum of its cells in the store, one for
// each process that used it, and only that process writes its cell. Nothing of it passes
// through Temporal.
//
// # Reservations
//
// A process writes into its cell what it is going to use before it uses it. So a process
// that dies has never used more than its cell says, and nothing is lost with it. It reserves
// some more than it needs, a chunk, so that most requests need no access to the store.
//
// A process that needs more first writes its cell, and then reads the other cells. If the sum
// exceeds the limit, it takes its reservation back and refuses. Of two processes that want the
// last of a budget at the same time, at least the second to write sees the other one, so both
// never get it. Both may be refused. This needs a store in which whoever lists and reads sees all
// that was written before, as folders, S3, Google Cloud Storage and Azure promise.
//
// A process reads a cell that was not written for a day once, and the others 16 at a time, at most
// 10,000 of an account.
//
// # Cells of processes that are gone
//
// The cells of an account with a period are deleted when the period after it has ended. Those of a session
// are deleted with the session's other records, once Temporal has forgotten it.
//
// The cells of an account without a period are folded. A process uses a cell for a week: its name has
// the week's Monday. It does not write it later than 10 days after that Monday: what a request uses that is
// still under way then is counted in the cell of the present week. A cell is folded when its Monday is
// 21 days past and the store says that nobody wrote it for 7 days. So neither whether a process lives nor
// whether its clock is a few days wrong matters. Folding takes these steps:
//
//   - A process reads the cells, and creates a fold: their sum, what each one had, and all that the
//     fold before has. Folds have numbers, and the store permits each number once. So of two processes
//     only one succeeds.
//   - From then on whoever counts takes the fold with the highest number, and leaves out what it has of
//     a cell.
//   - The process deletes the cells, and the fold before. If it dies, the next one does.
//
// A process that goes on with an old fold after others have made newer ones can create only a number
// below theirs, which nobody takes. If a fold is created while a process lists the cells, the process lists
// them again. If a write of a process that was stopped for weeks ends after all, it can bring back a
// deleted cell: the fold knows what the cell had, for the last 2,000 names, so only what it adds counts.
// Such a write is lost only if it ends between the last look at its cell and the deletion. Its
// process does not rely on it, and counts again what it used.
//
// A worker of an earlier version writes one cell without a week. Such cells are not folded. It counts a
// fold as a cell, so nothing is folded while a cell without a week was written in the last 7 days. One that only
// reads can count cells twice between the creation of a fold and their deletion, which ends its
// budget too early for that time. In a store that cannot create exclusively nothing is folded.
//
// # How exact it is
//
// What is counted and what providers charge differ by at most:
//
//   - for each process that died: its chunk and what it held for requests under way, which
//     count as used. A chunk is 1/64 of the limit, or of [Small] without one;
//   - for each request under way when the limit is reached: what the provider charges beyond
//     what was held for it. Within a stream more is held with each piece of the answer, but
//     text that the provider counts and does not send, such as hidden reasoning, is known
//     only at the end;
//   - for each request of which the provider does not say what it used: the error of the
//     estimate, which is at least what was held.
//
// The first difference only makes a budget end too early. A process that does not use an account gives its
// chunk back after [Idle], and when it stops.
package spend
