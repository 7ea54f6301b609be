// Package core holds the parts of ctl that every command needs and that use neither
// Temporal nor a worker: the streams and flags of one run ([App]), the output as text or
// JSON ([Printer]), errors with their exit codes ([Error]), questions at the terminal,
// checks of names, and reading and writing files.
package core
