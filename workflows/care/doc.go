// Package care has the workflows that look after an installation. Schedules start
// Maintenance; people or a worker start the others. All can be repeated.
package care
