// Package conn is ctl's connection to Temporal ([Conn]) and to the workers' HTTP APIs. What
// it shares with the HTTP API, such as how a workflow is asked with no worker up, is in package
// flows.
package conn
