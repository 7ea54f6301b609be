// Package show writes as text what several commands show: transcripts as they grow,
// usage and budgets, decisions, diffs. It makes no request: callers hand it all that it
// shows.
package show
