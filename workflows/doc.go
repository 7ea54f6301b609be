// Package workflows holds the state of sessions, hosts and seeds, and decides what happens
// next. Activities carry it out; hosts keep the data.
//
//	session   Session: one durable conversation, the only owner of its codex process
//	hostpool  HostPool: the inventory of a zone, which grants slots; and the host tasks
//	seed      Seed: the newest generation of a credential, and its holders; SeedPool;
//	          CaptureSeed, LoginSeed
//	batch     Batch: many sessions from one file
//	schedule  Fire: the session that a person's Schedule starts
//	care      Maintenance, PruneSnapshots, CheckSnapshots, RotateKeys, RecoverSeeds, ClaimKey
//	internal  kit, lease and ruling, which these share
//
// This package registers all of them. Its tests run whole workflows. Comments cite promises
// by the numbers of docs/explanation/guarantees.md.
//
// # Changes
//
// A workflow may outlive the program that began it. So each release has recorded histories
// (testdata/replay/v0.1). The tests of every build replay them and also compare the
// payloads, which Temporal's replayer does not do. `make record` records the histories of a
// release until `make freeze` freezes them. From then on a change to the commands of a
// workflow needs workflow.GetVersion, and the next release records into another folder
// (`make record RELEASE=v0.2`). A payload must keep the fields of older releases; new
// fields may be added.
//
// testdata/golden lists the names and shapes that running workflows and other programs rely
// on. A line there changes only together with a version and a migration.
//
// # Events
//
// These are the costs in history events:
//
//	plain turn  13 (12 if its message is a signal): update 2, workflow task 3,
//	            attributes 1, pump 3, workflow task 3, attributes 1
//	approval    14 more (13 if the decision is a signal): pump 3, task 3, timer 2,
//	            update 2, task 3, attributes 1
//	snapshot    6 more: activity 3, task 3
//	host        its pool 1 while it has sessions, 6 when they are long gone
//	command     to a pool, a seed or a batch: 1 more, for its audit record
//	credential  of a seed that is rotated, in doubt, dead or revived: 1, for its audit record
//
// A session has at most four timers, and sets each again after it fired: for approvals,
// idleness, snapshots within a turn, and the end of a limit. A session that switches seeds at
// the end of a quota also asks its pool, parks and comes back.
package workflows
