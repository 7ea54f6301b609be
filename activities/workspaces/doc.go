// Package workspaces brings the first content of a session's work folder, runs its hooks,
// pushes its work, and reads it for the worker's API. git, hooks and restores run as jobs on
// the host, which outlive a connection. A job that an earlier attempt has begun is followed,
// not begun again.
package workspaces
