package workflows

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/protocol"
)

const exitCode = "exit code of ctl"

// namedConsts says which constants hold names that are kept, sent, or shown to other
// programs.
var namedConsts = []struct {
	kind  string
	match *regexp.Regexp // of the constant's name
	under string         // the folder of the constant
}{
	{"kind", regexp.MustCompile(`^(ErrType|Refused)[A-Z]`), "."},
	{"kind", regexp.MustCompile(`^End[A-Z]`), "."},
	{"ended by", regexp.MustCompile(`^EndedBy[A-Z]`), "."},
	{"memo", regexp.MustCompile(`^[mM]emo[A-Z]`), "."},
	{"task queue", regexp.MustCompile(`^[tT]askQueue$`), "."},
	{exitCode, regexp.MustCompile(`^[eE]xit[A-Z]`), "internal/errkind"},
}

// eachFile reads the Go files of the program below root. It leaves out tests and the
// programs that serve only tests.
func eachFile(root string, do func(dir string, file *ast.File)) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if rel != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || rel == "bin" || rel == "deploy" || rel == "internal/lab") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err == nil {
			do(filepath.ToSlash(filepath.Dir(rel)), file)
		}
		return err
	})
}

// sourceNames reads names from the source of the program below root: constants,
// search attributes, kinds of errors, and the words of typed string constants.
func sourceNames(root string) (lines []string, err error) {
	consts := map[string]ast.Expr{} // by folder and name
	bad := []error{}
	err = eachFile(root, func(dir string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if name, kind := searchAttribute(call); kind != "" {
					lines = append(lines, fmt.Sprintf("search attribute %s: %s", name, kind))
				}
			}
			if kind := errorKind(n); kind != "" && sentAround(dir) {
				lines = append(lines, "kind "+kind)
			}
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for i, name := range spec.Names {
				if i >= len(spec.Values) {
					continue
				}
				consts[dir+"."+name.Name] = spec.Values[i]
				value, known := literal(spec.Values[i])
				if t, ok := spec.Type.(*ast.Ident); ok && known && ast.IsExported(t.Name) && plainWord.MatchString(value) && sentAround(dir) {
					lines = append(lines, "word "+value)
				}
			}
			return true
		})
	})
	if err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(consts)) {
		i := strings.LastIndex(key, ".")
		dir, name := key[:i], key[i+1:]
		for _, c := range namedConsts {
			if !c.match.MatchString(name) || c.under != "." && dir != c.under && !strings.HasPrefix(dir, c.under+"/") {
				continue
			}
			switch consts[key].(type) {
			case *ast.SelectorExpr, *ast.Ident:
				continue // an alias of a constant that is listed
			}
			value, ok := literal(consts[key])
			if !ok {
				bad = append(bad, fmt.Errorf("the %s %s in %s is no literal: teach this test to read it", c.kind, name, dir))
			}
			if c.kind == exitCode {
				value += ": " + strings.ToLower(name[len("exit"):]) // so that two codes cannot be swapped
			}
			lines = append(lines, c.kind+" "+value)
		}
	}
	return lines, errors.Join(bad...)
}

// sentAround reports whether typed string constants of a package are kept in states or
// sent.
func sentAround(dir string) bool {
	top, _, _ := strings.Cut(dir, "/")
	return top == "workflows" || top == "activities" || top == "conversation" || dir == "internal/protocol"
}

func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok {
		return "", false
	}
	if text, err := strconv.Unquote(lit.Value); err == nil {
		return strconv.Quote(text), true
	}
	return lit.Value, true
}

var attributeKey = regexp.MustCompile(`^NewSearchAttributeKey([A-Z][A-Za-z0-9]*)$`)

// searchAttribute reads temporal.NewSearchAttributeKeyKeyword("Name").
func searchAttribute(call *ast.CallExpr) (name, kind string) {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) != 1 {
		return "", ""
	}
	m := attributeKey.FindStringSubmatch(f.Sel.Name)
	if m == nil {
		return "", ""
	}
	name, ok = literal(call.Args[0])
	if !ok {
		return "of a name that this test cannot read", m[1]
	}
	return name, m[1]
}

var (
	plainWord   = regexp.MustCompile(`^"[a-z_]+"$`)
	makesErrors = regexp.MustCompile(`^New(NonRetryable)?ApplicationError`)
)

// errorKind returns the kind of an error if it is a literal at the place where the error is
// made: temporal.NewApplicationError(message, "kind"), problem("kind", …), kit.Refuse("kind", …), Kind: "kind".
func errorKind(n ast.Node) string {
	var at ast.Expr
	switch n := n.(type) {
	case *ast.CallExpr:
		switch f := n.Fun.(type) {
		case *ast.SelectorExpr:
			switch {
			case makesErrors.MatchString(f.Sel.Name) && len(n.Args) > 1:
				at = n.Args[1]
			case f.Sel.Name == "Refuse" && len(n.Args) > 0:
				at = n.Args[0]
			}
		case *ast.Ident:
			if (f.Name == "problem" || f.Name == "Refuse") && len(n.Args) > 0 {
				at = n.Args[0]
			}
		}
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Kind" {
			at = n.Value
		}
	}
	kind, ok := literal(at)
	if !ok || !plainWord.MatchString(kind) {
		return ""
	}
	return kind
}

func TestGoldenNames(t *testing.T) {
	lines, err := sourceNames("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range workflowTypes() {
		lines = append(lines, "workflow "+name)
	}
	for name := range activityTypes() {
		lines = append(lines, "activity "+name)
	}
	for to, all := range servedBy(t) {
		for s := range all {
			lines = append(lines, fmt.Sprintf("%s %s: %s", s.kind, to, s.name))
		}
	}
	// The ids of workflows and schedules, and other names that functions make.
	for what, id := range map[string]string{
		"session": protocol.SessionID("x"), "host pool": protocol.PoolID("x"), "host pool of the default zone": protocol.PoolID(""), "seed": protocol.SeedID("x"), "seed pool": protocol.SeedPoolID("x"),
		"host task": protocol.HostTaskID("x", "check"), "batch": protocol.BatchID("x"), "schedule": protocol.ScheduleID("x"), "key": protocol.KeyID("x"), "session of a key": protocol.IDOfKey("x"),
		"prune": protocol.PruneSnapshotsID, "prune dry-run": protocol.LookPruneID, "check of snapshots": protocol.CheckSnapshotsID, "rotation of keys": protocol.RotateKeysID, "check of keys": protocol.CheckKeysID, "recovery": protocol.RecoverID, "look of a recovery": protocol.LookRecoverID,
		"maintenance": protocol.MaintenanceID, "maintenance of snapshots": protocol.MaintainStoreID, "maintenance of the store": protocol.TidyStoreID,
		"maintenance of hosts": protocol.MaintainHostsID("x"), "maintenance of leftovers": protocol.MaintainLeftoversID("x"),
		"task queue": protocol.TaskQueueOf("x"), "task queue of the default zone": protocol.TaskQueueOf(""), "origin of a schedule": protocol.OriginSchedule("x"), "message of a decision": protocol.SendID("x", 1),
	} {
		lines = append(lines, fmt.Sprintf("id of %s x: %s", what, id))
	}
	golds(t, "names.txt", lines)
}

// The reader must find known names of several kinds.
func TestTheSourceIsReadForNames(t *testing.T) {
	lines, err := sourceNames("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`kind "unreachable"`, `kind "bad_input"`, `kind "login_failed"`, `kind "budget"`, `memo "created_at"`, `memo "claim"`, `task queue "fairlead"`,
		"exit code of ctl 2: usage", "exit code of ctl 130: interrupted", `search attribute "FairleadState": Keyword`, `search attribute "FairleadArchived": Bool`, `word "idle"`,
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("%s is not found in the source", want)
		}
	}
}

// The SDK knows a workflow function by its name without the package. If two packages
// have functions of the same name, it takes the one that was registered last.
func TestRunsContinueByTheNameOfTheirType(t *testing.T) {
	types := map[string]bool{}
	seen := 0
	err := eachFile("..", func(dir string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			f, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !strings.HasPrefix(f.Sel.Name, "NewContinueAsNewError") {
				return true
			}
			if on, ok := f.X.(*ast.SelectorExpr); ok && on.Sel.Name == "Next" {
				return true // an interceptor passes on what a workflow said
			}
			seen++
			next := ""
			for _, arg := range call.Args {
				switch arg := arg.(type) {
				case *ast.Ident:
					next += " " + arg.Name
				case *ast.SelectorExpr:
					next += " " + arg.Sel.Name
				}
			}
			if m := typeName.FindStringSubmatch(next); m != nil {
				types[m[1]] = true
			} else {
				t.Errorf("%s continues as new with%s: name the type of the workflow (TypeSession, …), not its function", dir, next)
			}
			return true
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 5 || len(types) < 5 {
		t.Errorf("%d workflows continue as new, of %d types: at least 5 are known to", seen, len(types))
	}
}

var typeName = regexp.MustCompile(` (Type[A-Z][A-Za-z]*)`)
