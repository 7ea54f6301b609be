package main

import "strings"

// fence writes a block of code, with a fence that the code does not contain.
func fence(p *printer, lang, text string) {
	if text == "" {
		return
	}
	mark := "```"
	for strings.Contains(text, mark) {
		mark += "`"
	}
	p.printf("\n%s%s\n%s\n%s\n", mark, lang, strings.TrimRight(text, "\n"), mark)
}

func quoted(s string) string {
	return strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n> ")
}
