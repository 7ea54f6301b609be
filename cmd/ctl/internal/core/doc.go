// Package core holds what every command of ctl needs without Temporal or a worker: streams
// and flags ([App]), output ([Printer]), errors with exit codes ([Error]), questions at the
// terminal, names, and files.
package core
