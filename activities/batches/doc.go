// Package batches has the activities that start a batch's sessions, keep results, and find
// sessions that ended silently. HoldBlobs and TidyStore look after the blobs of batches,
// schedules and messages.
package batches
