package script

import "crypto/rand"

// NewMark returns a random word that no other program will print.
func NewMark() string { return "fl-" + rand.Text() }
