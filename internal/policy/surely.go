package policy

import (
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
)

// movedTo is the entry in looks for the destination of a change.
const movedTo = ".moved_to"

// surely returns the facts that a rule has certainly looked at if its condition is true.
// For `a || b` these are the facts that both a and b look at. They must include everything
// that the request would grant. Otherwise the condition could be true although the rule has
// not seen it.
func surely(e ast.Expr) looks { yes, _ := bothWays(e); return yes }

// bothWays returns the facts that were certainly looked at if an expression is true, and
// those if it is false. In doubt it returns fewer facts, so that a person is asked.
func bothWays(e ast.Expr) (yes, no looks) {
	switch e.Kind() {
	case ast.IdentKind:
		return same(looks{e.AsIdent(): true})
	case ast.SelectKind:
		return same(selected(e.AsSelect()))
	case ast.ListKind:
		return same(seenIn(e.AsList().Elements()))
	case ast.ComprehensionKind:
		return looped(e.AsComprehension())
	case ast.CallKind:
		return called(e.AsCall())
	}
	return same(nil)
}

func same(l looks) (yes, no looks) { return l, l }

// seenIn returns the facts that are looked at when all the expressions are evaluated.
func seenIn(es []ast.Expr) (all looks) {
	for _, e := range es {
		yes, no := bothWays(e)
		all = either(all, both(yes, no))
	}
	return all
}

func called(c ast.CallExpr) (yes, no looks) {
	args := c.Args()
	switch c.FunctionName() {
	case operators.LogicalAnd:
		yes, no = bothWays(args[0])
		for _, a := range args[1:] {
			y, n := bothWays(a)
			yes, no = either(yes, y), both(no, n)
		}
		return yes, no
	case operators.LogicalOr:
		yes, no = bothWays(args[0])
		for _, a := range args[1:] {
			y, n := bothWays(a)
			yes, no = both(yes, y), either(no, n)
		}
		return yes, no
	case operators.LogicalNot:
		yes, no = bothWays(args[0])
		return no, yes
	case operators.Conditional:
		ifYes, ifNo := bothWays(args[0])
		thenYes, thenNo := bothWays(args[1])
		elseYes, elseNo := bothWays(args[2])
		return both(either(ifYes, thenYes), either(ifNo, elseYes)), both(either(ifYes, thenNo), either(ifNo, elseNo))
	}
	all := seenIn(args)
	if c.IsMemberFunction() {
		all = either(all, seenIn([]ast.Expr{c.Target()}))
	}
	return same(all)
}

func selected(s ast.SelectExpr) looks {
	all := seenIn([]ast.Expr{s.Operand()})
	if s.FieldName() == "moved_to" {
		all = either(all, looks{movedTo: true})
	}
	return all
}

// looped returns the facts that all, exists, map and filter look at. The range always
// counts. The body counts only if the range is changes, because an empty range skips the
// body. For all and exists it also counts only if every element was visited.
func looped(c ast.ComprehensionExpr) (yes, no looks) {
	through := c.IterRange()
	all := seenIn([]ast.Expr{through})
	if through.Kind() != ast.IdentKind || through.AsIdent() != "changes" {
		return same(all)
	}
	with := func(l looks) looks {
		if l[movedTo] {
			return either(all, looks{movedTo: true})
		}
		return all
	}
	step := c.LoopStep()
	yes, no = bothWays(step)
	function := ""
	if step.Kind() == ast.CallKind {
		function = step.AsCall().FunctionName()
	}
	switch function {
	case operators.LogicalAnd: // all
		return with(yes), all
	case operators.LogicalOr: // exists
		return all, with(no)
	}
	return same(with(both(yes, no)))
}

// either returns the union of two sets.
func either(a, b looks) looks {
	all := looks{}
	for _, l := range []looks{a, b} {
		for name := range l {
			all[name] = true
		}
	}
	return all
}

// both returns the intersection of two sets.
func both(a, b looks) looks {
	all := looks{}
	for name := range a {
		if b[name] {
			all[name] = true
		}
	}
	return all
}
