package policy

import (
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/parser"
)

// looks is a set of facts.
type looks map[string]bool

func (l looks) any(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return l[name] })
}

// look refuses expressions that cannot be meant or could evaluate differently another time,
// and warns of risks.
func look(a *ast.AST, r Rule, warn func(string)) (looks, error) {
	var err error
	seen, exact := looks{}, map[int64]bool{}
	text, cwd, arguments := false, false, false
	ast.PreOrderVisit(a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if err != nil {
			return
		}
		switch e.Kind() {
		case ast.IdentKind:
			name := e.AsIdent()
			seen[name] = true
			text = text || (name == "command" || name == "reason") && !exact[e.ID()]
			arguments = arguments || name == "arguments" && !exact[e.ID()]
		case ast.MapKind, ast.StructKind:
			err = fmt.Errorf("maps and messages cannot be made in a rule")
		case ast.CallKind:
			call := e.AsCall()
			if err = lookAtCall(call); err == nil {
				err = lookAtLists(a, call)
			}
			seen[call.FunctionName()] = true
			cwd = cwd || underCWD(call)
			if slices.Contains([]string{"split", operators.Equals, operators.In}, call.FunctionName()) {
				for _, a := range call.Args() {
					exact[a.ID()] = true
				}
			}
		}
	}))
	if err != nil || !r.Outcome.accepts() {
		return seen, err
	}
	if text {
		warn("it accepts by a part of command or reason, which the model may continue as it likes (`git status; rm -rf /` begins with git status, but words.starts([\"git\", \"status\"]) does not hold for it)")
	}
	if arguments {
		warn("it accepts and searches in arguments, where the model may have written anything else too: compare the whole text, as in arguments == '{\"id\":7}'")
	}
	if cwd {
		warn("it accepts what is under cwd, which the model may choose, even /; work is the session's own folder")
	}
	if seen["words"] && (seen["changes"] || seen["wants.read"] || seen["wants.write"]) {
		warn("it looks at words and at files, but no request has both, so it never accepts: split it into two rules")
	}
	for _, text := range careless(a.Expr()) {
		warn(text)
	}
	return seen, nil
}

func lookAtCall(c ast.CallExpr) error {
	switch c.FunctionName() {
	case "matches":
		// The model could write a pattern from the request.
		if pattern := c.Args()[len(c.Args())-1]; pattern.Kind() != ast.LiteralKind {
			return fmt.Errorf("the pattern of matches must be a literal string in the rule")
		}
	case "starts":
		if prefix := c.Args()[0]; prefix.Kind() == ast.ListKind && prefix.AsList().Size() == 0 {
			return fmt.Errorf("words.starts([]) is true of no command: name the words")
		}
	case operators.Equals, operators.NotEquals:
		return lookAtKind(c.Args()[0], c.Args()[1])
	case operators.In:
		if list := c.Args()[1]; list.Kind() == ast.ListKind {
			for _, e := range list.AsList().Elements() {
				if err := lookAtKind(c.Args()[0], e); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// lookAtLists refuses concatenated and nested lists: comparing them takes longer than CEL
// counts.
func lookAtLists(a *ast.AST, c ast.CallExpr) error {
	list := func(e ast.Expr) *types.Type {
		if t := a.GetType(e.ID()); t != nil && t.Kind() == types.ListKind {
			return t
		}
		return nil
	}
	switch c.FunctionName() {
	case operators.Add:
		// map and filter concatenate internally.
		left := c.Args()[0]
		if list(left) != nil && !(left.Kind() == ast.IdentKind && left.AsIdent() == parser.HiddenAccumulatorName) {
			return fmt.Errorf("lists cannot be added up in a rule")
		}
	case operators.Equals, operators.NotEquals, operators.In:
		for _, e := range c.Args() {
			if t := list(e); t != nil && len(t.Parameters()) == 1 && t.Parameters()[0].Kind() == types.ListKind {
				return fmt.Errorf("lists of lists cannot be compared in a rule")
			}
		}
	}
	return nil
}

// lookAtKind refuses an unknown kind: the condition is never true.
func lookAtKind(a, b ast.Expr) error {
	if a.Kind() == ast.LiteralKind {
		a, b = b, a
	}
	if a.Kind() != ast.IdentKind || a.AsIdent() != "kind" || b.Kind() != ast.LiteralKind {
		return nil
	}
	if s, ok := b.AsLiteral().(types.String); ok && !slices.Contains(kinds, string(s)) {
		return fmt.Errorf("%.40q is not a kind of request: %s", string(s), strings.Join(kinds, ", "))
	}
	return nil
}

func underCWD(c ast.CallExpr) bool {
	if c.FunctionName() != "under" || len(c.Args()) != 1 {
		return false
	}
	folder := c.Args()[0]
	return folder.Kind() == ast.IdentKind && folder.AsIdent() == "cwd"
}
