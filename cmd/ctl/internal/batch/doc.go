// Package batch is `ctl batch`: reading a file of items, starting the items as a batch, and
// following their results.
package batch
