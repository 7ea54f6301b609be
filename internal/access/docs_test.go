package access

import (
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/realparts"
)

// fieldsOf returns the fields of a file as the page names them, such as people[].name.
func fieldsOf(of reflect.Type, where string) (all []string) {
	for i := range of.NumField() {
		f := of.Field(i)
		name := f.Tag.Get("yaml")
		if name == "" {
			continue
		}
		all = append(all, where+name)
		in, below := f.Type, where+name+"."
		if in.Kind() == reflect.Slice {
			in, below = in.Elem(), where+name+"[]."
		}
		if in.Kind() == reflect.Struct {
			all = append(all, fieldsOf(in, below)...)
		}
	}
	return all
}

func TestThePageOfTheAccessFileNamesEveryFieldRoleVerbAndVariable(t *testing.T) {
	text, err := os.ReadFile(realparts.Path(t, "docs", "reference", "access-file.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	_, example, found := strings.Cut(page, "```yaml\n")
	example, _, closed := strings.Cut(example, "```")
	if !found || !closed {
		t.Fatal("the page shows no file")
	}
	a, err := Parse([]byte(example))
	if err != nil || len(a.Warnings) > 0 {
		t.Fatalf("the file of the page: %v, warnings %q", err, a.Warnings)
	}
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\|(.*)\\|$")
	section := func(heading string) map[string]string {
		_, after, _ := strings.Cut(page, "\n## "+heading+"\n")
		after, _, _ = strings.Cut(after, "\n## ")
		named := map[string]string{}
		for _, m := range rows.FindAllStringSubmatch(after, -1) {
			named[m[1]] = m[2]
		}
		return named
	}
	same := func(what string, page map[string]string, ours []string) {
		t.Helper()
		slices.Sort(ours)
		if named := slices.Sorted(maps.Keys(page)); !slices.Equal(named, ours) {
			t.Errorf("the page names the %s\n%q, and there are\n%q", what, named, ours)
		}
	}
	fields := fieldsOf(reflect.TypeFor[file](), "")
	if len(fields) < 18 {
		t.Errorf("only %d fields were found", len(fields))
	}
	for _, f := range fields {
		if last := f[strings.LastIndex(f, ".")+1:]; !strings.Contains(example, last+":") {
			t.Errorf("the file of the page has no %s", f)
		}
	}
	same("fields", section("Fields"), fields)
	same("variables", section("Conditions"), slices.Collect(maps.Keys(variables)))
	var roles []string
	for _, r := range Roles {
		roles = append(roles, string(r))
		var more []string
		for _, v := range r.Verbs() {
			if !slices.Contains(reads, v) && r != Admin || r == Admin && !slices.ContainsFunc(Roles[:len(Roles)-1], func(o Role) bool { return slices.Contains(o.Verbs(), v) }) {
				more = append(more, "`"+string(v)+"`")
			}
		}
		if said := section("Roles")[string(r)]; !strings.Contains(said, strings.Join(more, ", ")) || strings.Count(said, "`") != 2*len(more) {
			t.Errorf("the page says of %s %q, and it has %s", r, said, strings.Join(more, ", "))
		}
	}
	same("roles", section("Roles"), roles)
}
