// Package show writes as text what several commands show: transcripts as they
// grow, usage and budgets, decisions, diffs. It asks nobody.
package show
