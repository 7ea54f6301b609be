package config

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/realparts"
)

// The reference page of the configuration contains a config, which names every key.
func TestThePageOfTheConfigurationNamesEveryKey(t *testing.T) {
	page, err := os.ReadFile(realparts.Path(t, "docs", "reference", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "```yaml\n")
	text, _, closed := strings.Cut(text, "```")
	if !found || !closed {
		t.Fatal("the page shows no config")
	}
	if _, err := Parse("/etc/fairlead/worker.yaml", []byte(text)); err != nil {
		t.Error(err)
	}
	keys := 0
	var look func(of reflect.Type, text, where string)
	look = func(of reflect.Type, text, where string) {
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		for i := range of.NumField() {
			f := of.Field(i)
			name := f.Tag.Get("yaml")
			if name == "" {
				continue
			}
			keys++
			_, after, ok := strings.Cut("\n"+text, "\n"+name+":")
			if !ok {
				_, after, ok = strings.Cut(strings.NewReplacer("{", " ", ",", " ").Replace(text), " "+name+":")
			}
			if !ok {
				t.Errorf("the page does not name %s%s", where, name)
				continue
			}
			in := f.Type
			if in.Kind() == reflect.Pointer {
				in = in.Elem()
			}
			if in.Kind() == reflect.Struct {
				look(in, section(after), where+name+".")
			}
		}
	}
	look(reflect.TypeFor[Config](), text, "")
	if keys < 60 {
		t.Errorf("only %d keys were looked for", keys)
	}
}

// section returns the values of a key. These are on the line of the key, or on the indented
// lines below it. The indentation is removed.
func section(after string) string {
	line, rest, _ := strings.Cut(after, "\n")
	if line, _, _ = strings.Cut(line, "#"); strings.TrimSpace(line) != "" {
		return line
	}
	var out strings.Builder
	for l := range strings.Lines(rest) {
		if !strings.HasPrefix(l, "  ") {
			break
		}
		out.WriteString(strings.TrimPrefix(l, "  "))
	}
	return out.String()
}
