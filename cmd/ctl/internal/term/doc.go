// Package term shows texts at a terminal: lines in one style each ([Line]), diffs, a pager,
// Markdown, and the live part at the bottom of a screen ([Status]). It makes no requests. A
// text may contain an attack on the person who reads it. So every text goes through a Printer
// of package core, which escapes it.
package term
