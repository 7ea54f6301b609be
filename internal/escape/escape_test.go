package escape_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"fairlead.dev/fairlead/internal/escape"
)

func TestHiddenCharactersAreVisibleEscapes(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext\n":                        "plain\ttext\n",
		"naïve — 日本 👍 \ufffd":                  "naïve — 日本 👍 \ufffd",
		"a\x1b[31mred\x1b]0;title\a":           `a\x1b[31mred\x1b]0;title\x07`,
		"over\rwrite\b\x00\x7f":                `over\rwrite\x08\x00\x7f`,
		"\u0085\u009b2J":                       `\u0085\u009b2J`,
		"bad \xff\xc3 byte\xe2\x80":            `bad \xff\xc3 byte\xe2\x80`,
		"ab\u202ecod\u2066x\u2069":             `ab\u202ecod\u2066x\u2069`,
		"\u061c\u200b\u200f\ufeff\u2028\u2029": `\u061c\u200b\u200f\ufeff\u2028\u2029`,
		"tag\U000e0041\U000e007f":              `tag\U000e0041\U000e007f`,
	} {
		if got := escape.Text(in); got != want {
			t.Errorf("Text(%q) = %q, want %q", in, got, want)
		}
		if again := escape.Text(want); again != want {
			t.Errorf("Text(%q) = %q: escaped text is escaped again", want, again)
		}
	}
	if got, want := escape.Line("two\nlines\tand \x1b"), `two\nlines\tand \x1b`; got != want {
		t.Errorf("Line is %q, want %q", got, want)
	}
}

// Every character of the rule is escaped, and letters, digits and signs of all scripts stay.
func TestTheRuleCoversItsRangesAndNoLetters(t *testing.T) {
	hidden := func(from, to rune) {
		for r := from; r <= to; r++ {
			if got := escape.Text(string(r)); !strings.HasPrefix(got, `\`) || strings.ContainsRune(got, r) {
				t.Errorf("U+%04X is shown as %q", r, got)
			}
		}
	}
	hidden(0, 8)
	hidden(0xb, 0x1f)
	hidden(0x7f, 0x9f)
	hidden(0x61c, 0x61c)
	hidden(0x115f, 0x1160)
	hidden(0x3164, 0x3164)
	hidden(0xffa0, 0xffa0)
	hidden(0x200b, 0x200f)
	hidden(0x2028, 0x202e)
	hidden(0x2066, 0x2069)
	hidden(0xfeff, 0xfeff)
	hidden(0xe0000, 0xe007f)
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if unicode.IsGraphic(r) && !slices.Contains([]rune{0xad, 0x115f, 0x1160, 0x3164, 0xffa0}, r) && escape.Hidden(r) && !unicode.Is(unicode.Mn, r) {
			t.Errorf("U+%04X is a graphic character, and is hidden", r)
		}
	}
}

func TestEscapedJSONMeansTheSame(t *testing.T) {
	in := "a\x1b\u202eb\u009b\x7f\U000e0041 日本\u2028<&>"
	data, err := json.Marshal(map[string]string{in: in})
	if err != nil {
		t.Fatal(err)
	}
	out := escape.JSON(data)
	for i := 0; i < len(out); {
		r, n := utf8.DecodeRune(out[i:])
		if escape.Hidden(r) {
			t.Errorf("it has U+%04X as it is: %s", r, out)
		}
		i += n
	}
	var got map[string]string
	if err := json.Unmarshal(out, &got); err != nil || got[in] != in {
		t.Errorf("%s is read as %q (%v)", out, got, err)
	}
	if out := escape.JSON([]byte("\"\xff\"\n")); string(out) != "\"\\ufffd\"\n" {
		t.Errorf("an invalid byte is written as %q", out)
	}
}

func FuzzTextHidesNothing(f *testing.F) {
	f.Add("a\x1b[2J\u202e\xff")
	f.Fuzz(func(t *testing.T, s string) {
		got := escape.Text(s)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, escape.Hidden) {
			t.Errorf("Text(%q) = %q", s, got)
		}
	})
}
