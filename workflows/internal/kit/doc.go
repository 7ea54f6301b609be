// Package kit has what all workflows use: options of activities, failures as text, timers,
// and the rule which failures waiting can mend. A value is for the goroutines of one
// workflow.
package kit
