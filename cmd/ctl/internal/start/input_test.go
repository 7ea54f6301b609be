package start

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

func TestFilesThatCannotGoWithAMessageAreToldBeforeAnythingBegins(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	big := file("big", "")
	if err := os.Truncate(big, 64<<20+1); err != nil {
		t.Fatal(err)
	}
	bigger := file("big.png", "\x89PNG\r\n\x1a\n")
	if err := os.Truncate(bigger, 20<<20+1); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	text, schema := file("a.txt", "hello"), file("schema.json", ` { "type": "object" } `)
	for what, c := range map[string]struct {
		flags InputFlags
		says  string
	}{
		"good":        {InputFlags{files: []string{text}, schema: schema}, ""},
		"none":        {InputFlags{files: []string{dir + "/none"}}, "there is no such file"},
		"a folder":    {InputFlags{files: []string{dir}}, "not a regular file"},
		"a fifo":      {InputFlags{files: []string{fifo}}, "not a regular file"},
		"empty":       {InputFlags{files: []string{file("empty", "")}}, "is empty"},
		"big":         {InputFlags{files: []string{big}}, "at most 64"},
		"big image":   {InputFlags{images: []string{bigger}}, "at most 20"},
		"no image":    {InputFlags{images: []string{text}}, "not a PNG, JPEG, GIF or WebP"},
		"many":        {InputFlags{files: strings.Split(strings.Repeat(text+"\n", 11)[:11*len(text)+10], "\n")}, "at most 10"},
		"no schema":   {InputFlags{schema: text}, "not a JSON object"},
		"a list":      {InputFlags{schema: file("list", "[]")}, "not a JSON object"},
		"long schema": {InputFlags{schema: file("long", `{"a":"`+strings.Repeat("x", 64<<10)+`"}`)}, "more than 65536 bytes"},
	} {
		x, err := c.flags.Look()
		if (err == nil) != (c.says == "") || err != nil && (!strings.Contains(err.Error(), c.says) || core.ExitCode(err) != core.ExitUsage) {
			t.Errorf("%s: %v, want %q", what, err, c.says)
		}
		if what == "good" && (string(x.schema) != `{"type":"object"}` || len(x.inputs) != 1 || x.inputs[0].Name != "a.txt" || x.inputs[0].Bytes != 5) {
			t.Errorf("looked at as %+v", x)
		}
	}
}

func TestInstructionsAreATextOrAFile(t *testing.T) {
	dir := t.TempDir()
	name, blank, long := filepath.Join(dir, "how.md"), filepath.Join(dir, "blank"), filepath.Join(dir, "long")
	for file, text := range map[string]string{name: "be brief", blank: " \n", long: strings.Repeat("x", protocol.MaxGiven+1)} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for given, want := range map[string]string{name: "be brief", "be very brief": "be very brief", "": ""} {
		var opt session.Options
		err := (&threadFlags{instructions: given, developer: given}).set(&opt)
		if got := opt.Agents; err != nil || opt.Instructions != want || (got == nil) != (want == "") || got != nil && got.Text != want {
			t.Errorf("%q: %q, %+v, %v", given, opt.Instructions, got, err)
		}
		if err := opt.Check(); err != nil {
			t.Errorf("%q: the session refuses it: %v", given, err)
		}
	}
	var opt session.Options
	if err := (&threadFlags{base: name}).set(&opt); err != nil || opt.Base == nil || opt.Base.Text != "be brief" || opt.Agents != nil {
		t.Errorf("base instructions %+v, %v", opt.Base, err)
	}
	for _, bad := range []threadFlags{
		{instructions: name + "x"}, {instructions: blank}, {instructions: long}, {instructions: "a \xff"}, {base: "be very brief"}, {base: blank},
		{developer: name + "x"}, {developer: "a " + strings.Repeat("x", 16<<10)}, {personality: "grumpy"},
	} {
		var opt session.Options
		if err := bad.set(&opt); core.ExitCode(err) != core.ExitUsage {
			t.Errorf("%.60q: %v", bad, err)
		}
	}
}
