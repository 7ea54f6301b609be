// Package conn is ctl's connection to Temporal ([Conn]) and to the workers' HTTP APIs. It
// queries workflows, sends them messages, waits for results, and converts failures to
// errors of package core. If no worker answers a query, it replays the workflow's history
// and answers the query from that.
package conn
