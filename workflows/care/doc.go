// Package care has the workflows that look after an installation. Maintenance verifies
// seeds, checks hosts, looks for what sessions left on hosts, and tidies the store;
// Schedules start it. PruneSnapshots, CheckSnapshots, RotateKeys and ClaimKey are started by
// people, or by a worker. All of them can be repeated: what is done is not done again.
package care
