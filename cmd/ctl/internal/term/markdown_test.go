package term

import (
	"strings"
	"testing"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
)

func shownAs(text string, width int) string {
	return strings.Join(core.Styled(true, func(p *core.Printer) { Markdown(p, text, width) }), "\n")
}

func bare(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == 0x1b {
			i += strings.IndexByte(s[i:], 'm')
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func TestMarkdownIsRendered(t *testing.T) {
	got := shownAs("# Title\n\nSome **bold** and `code`.\n\n- one\n- two\n\n```go\nx := 1 < 2 && y\n```\n\nSee [the page](https://a.example/?x=1&y=2).\n", 60)
	for _, want := range []string{"# Title", "Some bold and code.", "• one", "• two", "x := 1 < 2 && y", "https://a.example/?x=1&y=2"} {
		if !strings.Contains(bare(got), want) {
			t.Errorf("it has no %q:\n%s", want, bare(got))
		}
	}
	if strings.Contains(got, "**") || !strings.Contains(got, "\x1b[1m") && !strings.Contains(got, "\x1b[1;") {
		t.Errorf("nothing is bold: %q", got)
	}
}

// The model chooses the text. None of it reaches the terminal as a sequence, nothing is
// hidden behind other words, and nothing disappears.
func TestMarkdownHidesNothingAndObeysNothing(t *testing.T) {
	for text, want := range map[string]string{
		"a\x1b[2Jb":                      `a\x1b[2Jb`,
		"&#27;[2J and &#x202e;x &shy;":   "&#27;[2J and &#x202e;x &shy;",
		"`&#27;[2J`":                     "&#27;[2J",
		"[safe](https://evil.example)":   "https://evil.example",
		"use <T> and <!-- this --> here": "use <T> and <!-- this --> here",
		"\ue126 and \ue13c":              `\ue126 and \ue13c`,
		"\u202egnp.exe":                  `\u202egnp.exe`,
		"<script>x</script>\n\ntext":     "<script>x</script>",
	} {
		got := shownAs(text, 60)
		if plain := bare(got); !strings.Contains(plain, want) {
			t.Errorf("%q is shown as %q", text, plain)
		}
		for _, bad := range []string{"\x1b]", "\x1b[2J", "\u202e", "\u00ad", "\x07"} {
			if strings.Contains(got, bad) {
				t.Errorf("%q gets %q to the terminal: %q", text, bad, got)
			}
		}
	}
}

// What would take the parser for ever is shown as it is written.
func TestHostileMarkdownIsShownAsItIs(t *testing.T) {
	for _, unit := range []string{"> ", "- ", "*a_ ", "[", "`a", "|a", "![a](", "~~a ", "a **"} {
		text := strings.Repeat(unit, 30_000/len(unit))
		if simple(text) {
			t.Errorf("%q, many times, is rendered", unit)
		}
		if got := shownAs(text, 80); bare(got) != strings.TrimRight(text, "\n") {
			t.Errorf("%q, many times, is shown as %.100q", unit, got)
		}
	}
	var deep strings.Builder
	for i := range 200 {
		deep.WriteString(strings.Repeat("  ", i) + "- a\n")
	}
	if simple(deep.String()) {
		t.Error("a list of 200 levels is rendered")
	}
}

func FuzzMarkdown(f *testing.F) {
	for _, seed := range []string{"# a\n\n*b* [c](d) `e`\n\n| a | b |\n|---|---|\n| 1 | 2 |", "&#27;]8;;x\x1b\\", "> q\n\n1. a\n   - b\n\n~~~\nx", "<a href='x'>y</a> ![i](j)"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, line := range core.Styled(true, func(p *core.Printer) { Markdown(p, text, 40) }) {
			for rest := line; ; {
				at := strings.IndexByte(rest, 0x1b)
				if at < 0 {
					break
				}
				end := strings.IndexFunc(rest[at+1:], func(r rune) bool { return r != '[' && r != ';' && r != ':' && (r < '0' || r > '9') })
				if end < 0 || rest[at+1+end] != 'm' {
					t.Fatalf("%q gets %q to the terminal", text, rest[at:])
				}
				rest = rest[at+1+end:]
			}
		}
		if whole, rest := Blocks(text); whole+rest != text {
			t.Errorf("blocks of %q are %q and %q", text, whole, rest)
		}
	})
}

func TestBlocksAreWhole(t *testing.T) {
	for text, want := range map[string]string{
		"one":                         "",
		"one\n\ntwo":                  "one\n\n",
		"one\n\n":                     "",
		"- a\n\n- b":                  "",
		"- a\n\n  more":               "",
		"- a\n\nnext":                 "- a\n\n",
		"```\na\n\nb":                 "",
		"```\na\n\nb\n```\n\nnext\n":  "```\na\n\nb\n```\n\n",
		"# head\n\ntext\n\n# another": "# head\n\ntext\n\n",
	} {
		if whole, rest := Blocks(text); whole != want || whole+rest != text {
			t.Errorf("of %q, %q is whole", text, whole)
		}
	}
}
