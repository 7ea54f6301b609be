package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// All that ctl prints goes to the writers of core.App, which Screen made: they escape what
// reaches a terminal.
func TestNothingIsPrintedPastTheScreen(t *testing.T) {
	files := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files++
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				switch name := nameOf(n); {
				case (name == "os.Stdout" || name == "os.Stderr") && path != "main.go",
					name == "fmt.Print", name == "fmt.Printf", name == "fmt.Println", name == "log.Print", name == "log.Printf", name == "log.Println":
					t.Errorf("%s: %s: print through core.App", set.Position(n.Pos()), name)
				}
			case *ast.CallExpr:
				if id, ok := n.Fun.(*ast.Ident); ok && (id.Name == "print" || id.Name == "println") {
					t.Errorf("%s: %s: print through core.App", set.Position(n.Pos()), id.Name)
				}
			case *ast.CompositeLit:
				if sel, ok := n.Type.(*ast.SelectorExpr); ok && nameOf(sel) == "core.App" && path != "main.go" {
					t.Errorf("%s: only main makes an App, with Screen", set.Position(n.Pos()))
				}
			case *ast.BasicLit:
				if n.Kind == token.STRING && strings.Contains(n.Value, `\x1b`) && path != filepath.Join("internal", "core", "screen.go") {
					t.Errorf("%s: an escape sequence: use Paint or EraseLine", set.Position(n.Pos()))
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 50 {
		t.Fatalf("only %d files were read: this test looks in the wrong place", files)
	}
}

func nameOf(sel *ast.SelectorExpr) string {
	if x, ok := sel.X.(*ast.Ident); ok {
		return x.Name + "." + sel.Sel.Name
	}
	return ""
}
