package session

import (
	"slices"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
)

// showChildren prints a line for each session that the agent started.
func showChildren(p *core.Printer, all []protocol.ChildView) {
	for _, v := range all {
		p.Printf("child %s of turn %d: %s", core.Clean(v.Session), v.Turn, p.Paint(childColour(v.Outcome), core.Clean(v.Outcome)))
		switch {
		case v.Error != nil:
			p.Printf(": %s: %s", core.Clean(v.Error.Kind), core.Clean(core.OneLine(v.Error.Message, 200)))
		case v.Text != "":
			p.Printf(": %s", core.Clean(core.OneLine(v.Text, 200)))
		case v.Prompt != "":
			p.Printf(": told %s", core.Clean(core.OneLine(v.Prompt, 100)))
		}
		p.Printf("\n")
	}
}

func childColour(outcome string) core.Style {
	switch outcome {
	case protocol.ChildCompleted:
		return core.Green
	case protocol.ChildFailed:
		return core.Red
	case protocol.ChildCancelled:
		return core.Yellow
	}
	return core.Cyan
}

// asTree puts each session after its parent, if the list has the parent, and returns the depth
// of each. Otherwise the order stays the same.
func asTree(list []protocol.SessionView) (out []protocol.SessionView, depth []int) {
	below := map[string][]protocol.SessionView{}
	var roots []protocol.SessionView
	for _, v := range list {
		if v.Parent != "" && v.Parent != v.ID && slices.ContainsFunc(list, func(o protocol.SessionView) bool { return o.ID == v.Parent }) {
			below[v.Parent] = append(below[v.Parent], v)
		} else {
			roots = append(roots, v)
		}
	}
	var put func(v protocol.SessionView, deep int)
	put = func(v protocol.SessionView, deep int) {
		out, depth = append(out, v), append(depth, deep)
		children := below[v.ID]
		delete(below, v.ID)
		for _, c := range children {
			put(c, deep+1)
		}
	}
	for _, v := range roots {
		put(v, 0)
	}
	return out, depth
}
