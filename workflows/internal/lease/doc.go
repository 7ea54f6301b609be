// Package lease has the messages by which workflows ask for slots and seeds, grant them and
// give them back. Their JSON and the names of their signals are a contract between
// versions.
package lease
