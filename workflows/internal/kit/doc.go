// Package kit has what all workflows use: options of activities, failures as text, timers
// that survive a change of the run, and the rule which failures waiting can mend. Its types
// are for one workflow each, and are not safe for other goroutines than those of that
// workflow.
package kit
