package policy

import (
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
)

// movedTo is the destination of a change, in looks.
const movedTo = ".moved_to"

// surely returns the facts that a rule has certainly looked at if its condition is true;
// for `a || b` those of both. They must include all that the request would grant, or the
// condition could be true without the rule having seen it.
func surely(e ast.Expr) looks { yes, _ := bothWays(e); return yes }

// bothWays returns the facts certainly looked at if e is true, and if it is false; in doubt
// fewer, so that a person is asked.
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

// seenIn returns the facts looked at when all of es are evaluated.
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
// counts. The body counts only if the range is changes, because an empty range skips it,
// and for all and exists only if every element was visited.
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

// either is the union.
func either(a, b looks) looks {
	all := looks{}
	for _, l := range []looks{a, b} {
		for name := range l {
			all[name] = true
		}
	}
	return all
}

// both is the intersection.
func both(a, b looks) looks {
	all := looks{}
	for name := range a {
		if b[name] {
			all[name] = true
		}
	}
	return all
}
