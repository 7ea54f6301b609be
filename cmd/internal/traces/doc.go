// Package traces sends spans of what ctl and workers do to a collector, by OTLP over HTTP.
//
// A trace goes from ctl's request over the workflow and its activities to the scripts that run on
// a host and the turns of codex. Temporal's headers carry it from process to process. Spans have
// ids, names of workflows, activities and hosts, counts and kinds of errors. They have no text of
// a person, of the agent or of an error: those may hold prompts and secrets.
package traces
