// Package workspaces fills a session's work folder, runs its hooks, pushes its work, and
// reads it for the worker's API. git and hooks run as jobs on the host, which outlive a
// connection; a later attempt follows the same job.
package workspaces
