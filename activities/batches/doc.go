// Package batches has the activities of batches: they start sessions for items, keep results
// in the store, and find sessions that ended without a report. HoldBlobs and TidyStore look
// after what batches, schedules and messages put into the store.
package batches
