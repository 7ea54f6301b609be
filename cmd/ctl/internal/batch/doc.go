// Package batch is `ctl batch`: reading a file of items, starting it as a batch,
// and following what becomes of the items.
package batch
