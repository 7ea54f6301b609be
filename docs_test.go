package fairlead

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// readmeWords is how long the README may be. What is longer belongs on a page of docs.
const readmeWords = 1500

func TestREADMEIsShort(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(strings.Fields(string(text))); n > readmeWords {
		t.Errorf("README.md has %d words, more than %d: move some to a page of docs", n, readmeWords)
	}
}

// TestLinksOfTheDocsLeadSomewhere checks that every relative link of the README and
// of the pages below docs leads to a file that exists, and to a heading of it, and
// that each page can be reached from the README.
func TestLinksOfTheDocsLeadSomewhere(t *testing.T) {
	links := map[string][]string{}
	read := func(path string) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		links[path] = linksOf(string(text))
	}
	read("README.md")
	err := filepath.WalkDir("docs", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(path) == ".md" {
			read(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for page, all := range links {
		for _, link := range all {
			n++
			if why := brokenLink(page, link); why != "" {
				t.Errorf("%s: link %s: %s", page, link, why)
			}
		}
	}
	if n < 60 {
		t.Errorf("only %d links were found: this test does not read them", n)
	}
	reached := map[string]bool{}
	var reach func(page string)
	reach = func(page string) {
		if reached[page] {
			return
		}
		reached[page] = true
		for _, link := range links[page] {
			file, _, _ := strings.Cut(link, "#")
			reach(filepath.Join(filepath.Dir(page), filepath.FromSlash(file)))
		}
	}
	reach("README.md")
	for page := range links {
		if !reached[page] {
			t.Errorf("%s: no link leads there from README.md", page)
		}
	}
}

var (
	linkPattern = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	codePattern = regexp.MustCompile("`[^`]*`")
)

// linksOf are the links of a page that lead to files of the repository. What stands in code is none.
func linksOf(text string) (links []string) {
	for paragraph := range strings.SplitSeq(strings.Join(proseOf(text), "\n"), "\n\n") {
		for _, m := range linkPattern.FindAllStringSubmatch(codePattern.ReplaceAllString(paragraph, "code"), -1) {
			if !strings.Contains(m[1], "://") && !strings.HasPrefix(m[1], "mailto:") {
				links = append(links, m[1])
			}
		}
	}
	return links
}

// proseOf are the lines of a page that are not in a block of code.
func proseOf(text string) (lines []string) {
	fenced := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			continue
		}
		if !fenced && !strings.HasPrefix(line, "    ") { // items of lists are indented by less
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// brokenLink says what is wrong with a link of a page; nothing is "".
func brokenLink(page, link string) string {
	file, anchor, hasAnchor := strings.Cut(link, "#")
	path := page
	if file != "" {
		path = filepath.Join(filepath.Dir(page), filepath.FromSlash(file))
	}
	if filepath.IsAbs(file) || !filepath.IsLocal(path) {
		return "leads out of the repository"
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	if hasAnchor && !anchorsOf(string(text))[anchor] {
		return "there is no such heading"
	}
	return ""
}

// anchorsOf are the anchors that GitHub gives to the headings of a page.
func anchorsOf(text string) map[string]bool {
	anchors := map[string]bool{}
	for _, line := range proseOf(text) {
		title := strings.TrimLeft(line, "#")
		if title == line || !strings.HasPrefix(title, " ") {
			continue
		}
		anchors[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(title))] = true
	}
	return anchors
}

func TestALinkThatLeadsNowhereIsNoticed(t *testing.T) {
	page := filepath.Join("docs", "reference", "giving-up.md")
	for link, broken := range map[string]bool{
		"endings.md": false, "../../README.md": false, "#when-does-fairlead-give-up": false, "endings.md#why-a-turn-ended": false,
		"nothing.md": true, "../../../README.md": true, "/README.md": true, "#nothing": true, "endings.md#nothing": true,
	} {
		if why := brokenLink(page, link); (why != "") != broken {
			t.Errorf("%s: %q", link, why)
		}
	}
	text := "[a](b.md) `[c](d.md)`\n\n    [e](f.md)\n\n```\n[g](h.md)\n```\n[i](https://j.example) [k](l.md#m)\n"
	if got := strings.Join(linksOf(text), " "); got != "b.md l.md#m" {
		t.Errorf("links %q", got)
	}
}
