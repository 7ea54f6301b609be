// Package term shows texts at a terminal: lines in one style each ([Line]), diffs, a pager,
// Markdown, and the live part at the bottom of a screen ([Status]). It makes no requests. Who
// is to read what is shown may be attacked by its text, so all of it goes through a Printer of
// package core, which escapes it.
package term
