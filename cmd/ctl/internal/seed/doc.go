// Package seed is `ctl seed`: capturing, verifying, sharing and exporting
// credentials, and rotating the keys that they are encrypted with.
package seed
