package fairlead

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Bounds of a package and of a type. A package above them says why in its doc.go.
const (
	mostFiles   = 40
	mostLines   = 6000
	mostMethods = 60
	largerWhy   = "The package is larger than others because"
)

// TestNoPackageAndNoTypeGrowsTooLarge counts files, lines and methods without tests.
func TestNoPackageAndNoTypeGrowsTooLarge(t *testing.T) {
	type size struct{ files, lines int }
	sizes, methods := map[string]*size{}, map[string]int{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || path == "bin" || path == filepath.Join("deploy", "devserver")) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		if sizes[dir] == nil {
			sizes[dir] = &size{}
		}
		sizes[dir].files++
		sizes[dir].lines += strings.Count(string(text), "\n")
		f, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			if m, ok := d.(*ast.FuncDecl); ok && m.Recv != nil {
				methods[dir+"."+receiver(m.Recv.List[0].Type)]++
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(sizes) < 40 {
		t.Fatalf("only %d packages were counted: this test looks in the wrong place", len(sizes))
	}
	for dir, s := range sizes {
		doc, _ := os.ReadFile(filepath.Join(filepath.FromSlash(dir), "doc.go")) // none has no reason
		large, reason := s.files > mostFiles || s.lines > mostLines, strings.Contains(string(doc), largerWhy)
		if large && !reason {
			t.Errorf("%s has %d files and %d lines, at most %d and %d: split it, or let its doc.go say %q and the reason", dir, s.files, s.lines, mostFiles, mostLines, largerWhy)
		}
		if !large && reason {
			t.Errorf("%s is not larger than others any more: delete the reason in its doc.go", dir)
		}
	}
	for of, n := range methods {
		if n > mostMethods {
			t.Errorf("%s has %d methods, at most %d: it is several types", of, n, mostMethods)
		}
	}
}

// receiver returns the name of a receiver's type.
func receiver(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}
