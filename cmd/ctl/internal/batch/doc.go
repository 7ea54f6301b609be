// Package batch is `ctl batch`: reading, starting and following batches.
package batch
