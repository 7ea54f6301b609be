// Package seed is `ctl seed`: capturing, verifying, sharing and exporting credentials, and
// rotating the store's keys.
package seed
