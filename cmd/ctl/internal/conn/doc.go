// Package conn is ctl's connection to Temporal ([Conn]) and to the workers' HTTP APIs. It
// converts failures to errors of package core. If no worker answers a query, it replays the
// workflow's history.
package conn
