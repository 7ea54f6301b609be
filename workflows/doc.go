// Package workflows holds the state of sessions, hosts and seeds, and decides
// what happens next. Activities carry it out; hosts keep the data.
//
// A Session is one durable conversation and the only owner of its codex process. A HostPool
// is the inventory of a zone and grants slots. A Seed knows the newest generation of a
// credential and its holders. A SeedPool lends any free and healthy seed of several. Host
// tasks (check, provision, exec, capture and login of a seed) are short workflows, so that
// they are on record. Maintenance does periodic work, and Schedules start it. A Batch runs
// many sessions from one file, a window of them at a time, and records how each ended. A
// person's Schedule starts the workflow Fire. Fire begins a session and runs until that
// session has ended, so that the Schedule knows which sessions run. If Fire is cancelled,
// it closes the session.
//
// Comments cite promises by the numbers of docs/explanation/guarantees.md.
//
// # Packages
//
//	session   the workflow Session, and the table of messages
//	hostpool  HostPool and the host tasks
//	seed      Seed, SeedPool, CaptureSeed, LoginSeed
//	batch     Batch
//	schedule  Fire
//	care      Maintenance, PruneSnapshots, CheckSnapshots, RotateKeys, ClaimKey
//	internal  kit, lease and ruling, which these share
//
// This package registers all of them. Its tests run whole workflows; tests of a single
// function are in the package of that function.
//
// # Changes
//
// A workflow may outlive the program that began it. So each release has recorded histories
// (testdata/replay/v0.1). The tests of every build replay all of them, and also compare the
// payloads, which Temporal's replayer does not do. Before a release, its histories are
// recorded anew (`make record`) until `make freeze` freezes them. From then on a change to
// the commands of a workflow needs workflow.GetVersion, and the next release has its own
// histories in another folder (`make record RELEASE=v0.2`). A payload must keep the fields
// that older releases put into it. New fields may be added.
//
// The names and shapes that running workflows and other programs rely on are
// listed in testdata/golden: a line there is changed only together with a version
// and a migration.
//
// # Events
//
// A plain turn costs 13 events if its message comes by update (12 by signal): update 2,
// workflow task 3, attributes 1, pump 3, workflow task 3, attributes 1. An approval adds 14
// if the decision comes by update (13 by signal): pump 3, task 3, timer 2, update 2, task
// 3, attributes 1. A host with sessions costs its pool one event, and six in all when its
// sessions are long gone. A snapshot adds 6: activity 3, task 3. A session has at most four
// timers, and sets each again after it fired: for approvals, for an idle session, for
// snapshots within a turn, and for the end of a limit.
package workflows
