// Package schedules has what ctl and the HTTP API do with schedules: Temporal's own, whose
// acts are put on record by workflows of ours.
package schedules
