package script

import "crypto/rand"

// NewMark returns a random word to find in output.
func NewMark() string { return "fl-" + rand.Text() }
