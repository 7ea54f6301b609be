// Package inquiry asks workflows what activities need to know. It asks a seed for its newest
// generation, a session for the snapshot that it goes on from, and a pool for what was left
// on its hosts. Workflows of all versions must understand the JSON of its messages.
package inquiry
