package script

import "crypto/rand"

// NewMark returns a word that nothing else will print.
func NewMark() string { return "fl-" + rand.Text() }
