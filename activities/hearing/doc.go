// Package hearing cancels the context of a pump as soon as its workflow requests this, on a server
// with worker commands off. Such a server reports the cancellation of an activity only in the
// answer to a heartbeat. So a worker waits for the next event of the workflow's history, which every
// server allows, and cancels the context when it reads the request.
//
// A worker reads each event once. If the server does not answer, the worker learns of the request
// from the answer to the next heartbeat.
package hearing
