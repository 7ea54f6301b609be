// Package escape makes the characters visible that change how other text looks, or that a
// terminal obeys. Hosts, codex, models and other users choose much of what people are shown,
// and people approve what they are shown.
//
// There is one rule, Hidden. Line feeds and tabs stay. A hidden character is replaced by an
// escape as in a Go string, such as \x1b or \u202e, and a byte that is not UTF-8 by \xff.
// Nothing is deleted, so that texts that differ look different. Escaped text has nothing
// left to escape.
//
// The package imports the standard library alone.
package escape
