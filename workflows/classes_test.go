package workflows

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/authority"
)

// The golden list of names has every signal, update, query and type of workflow. Each is in a
// class that says from whom it counts.
func TestEveryNameSaysFromWhomItCounts(t *testing.T) {
	list, err := os.ReadFile(filepath.Join(golden, "names.txt"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{}
	for line := range strings.Lines(string(list)) {
		f := strings.Fields(line)
		switch {
		case len(f) == 0:
		case f[0] == "workflow":
			want = append(want, "workflow "+f[1])
		case f[0] == "signal" || f[0] == "update" || f[0] == "query":
			want = append(want, f[0]+" "+f[2])
		}
	}
	slices.Sort(want)
	want = slices.Compact(want)
	got := slices.Compact(authority.Named())
	for _, name := range want {
		if !slices.Contains(got, name) {
			t.Errorf("%s has no class: add it to internal/authority/names.go", name)
		}
	}
	for _, name := range got {
		if !slices.Contains(want, name) {
			t.Errorf("%s has a class, and nothing has that name", name)
		}
	}
	if len(want) < 80 {
		t.Errorf("only %d names were read", len(want))
	}
}
