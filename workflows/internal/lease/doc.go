// Package lease has the messages by which workflows ask for slots and seeds, grant them and
// give them back, and the names of the signals that carry them. The JSON of the messages
// and the names are a contract between workflows of different versions.
package lease
