package strictyaml

import (
	"slices"
	"strings"
	"testing"
	"time"
)

type thing struct {
	Name  string            `yaml:"name"`
	Many  map[string]part   `yaml:"many"`
	List  []string          `yaml:"list"`
	Texts map[string]string `yaml:"texts"`
	On    *struct {
		Yes bool `yaml:"yes"`
	} `yaml:"on"`
}

type part struct {
	Wait time.Duration `yaml:"wait"`
	On   bool          `yaml:"on"`
}

func TestEveryMistakeIsToldWithItsLineAndNoValue(t *testing.T) {
	var v thing
	f := Read([]byte(`name: [marked]
many:
  "a b": {wait: marked, on: "marked", waits: 3}
  c: marked
list: marked
texts:
  x: {marked: 1}
  12: ok
on: {yes: true, no: marked}
`), &v)
	var told []string
	for _, p := range f.Problems {
		told = append(told, p.String())
	}
	text := strings.Join(told, "\n")
	for _, want := range []string{"line 1: name:", "line 3: many.a b.wait:", "line 3: many.a b.on:", "line 3: many.a b.waits: no such key: here are wait, on",
		"line 4: many.c:", "line 5: list:", "line 7: texts.x:", "line 9: on.no: no such key"} {
		if !strings.Contains(text, want) {
			t.Errorf("not told: %s", want)
		}
	}
	if len(told) != 8 || strings.Contains(text, "marked") || v.Texts["12"] != "ok" || !v.On.Yes {
		t.Errorf("told %d: %s\nread %+v", len(told), text, v)
	}
}

func TestWhatIsNoYAMLIsToldWithoutIt(t *testing.T) {
	for _, data := range []string{"name: \"marked\n", "name: marked: marked\n", "name: *marked\n", "a: b\n  marked: c\n", "---\nname: a\n---\nname: marked\n",
		"%YAML marked\n---\na: b\n", "list: [marked\n", "marked\n", "{marked", "name: a\nname: marked\n", "\tname: marked"} {
		f := Read([]byte(data), &thing{})
		if len(f.Problems) == 0 {
			t.Errorf("%q was taken", data)
		}
		for _, p := range f.Problems {
			if strings.Contains(p.String(), "marked") {
				t.Errorf("%q: %s", data, p)
			}
		}
	}
}

func TestListsAndMapsAreReadWhole(t *testing.T) {
	v := thing{Name: "kept"}
	f := Read([]byte("list: [a, 1, true]\nmany: {x: {wait: 5s, on: true}, y: }\nname:\n"), &v)
	if len(f.Problems) > 0 || !slices.Equal(v.List, []string{"a", "1", "true"}) || v.Many["x"].Wait != 5*time.Second || !v.Many["x"].On || v.Name != "kept" {
		t.Errorf("%v: %+v", f.Problems, v)
	}
	if _, there := v.Many["y"]; !there || f.Lines["list[1]"] != 1 {
		t.Errorf("%+v, %v", v, f.Lines)
	}
}
