// Package conn is ctl's connection to Temporal ([Conn]) and to the workers' HTTP
// APIs. It asks workflows, sends them messages, waits for what becomes of them, and
// turns what went wrong into errors of package core. Where no worker answers, it
// replays a workflow's history and asks that.
package conn
