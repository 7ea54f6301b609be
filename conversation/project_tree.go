package conversation

import (
	"slices"
	"strings"

	"fairlead.dev/fairlead/internal/protocol"
)

// A TreeEntry is an entry with its place in the tree of sub-agents.
type TreeEntry struct {
	protocol.Entry
	// Depth is 0 for the session's own thread, 1 for its sub-agents.
	Depth int
	// First says that it is the first of its sub-agent.
	First bool
}

// AgentName returns the name of the sub-agent that the entry is from, or its thread if it
// has no name.
func (e TreeEntry) AgentName() string {
	if e.Agent != nil && e.Agent.Name != "" {
		return e.Agent.Name
	}
	return e.SubAgent()
}

// Tree returns the entries with those of each sub-agent together, behind the call that
// began it.
func Tree(entries []protocol.Entry) []TreeEntry {
	t := tree{entries: map[string][]protocol.Entry{}, children: map[string][]string{}, done: map[string]bool{}}
	var threads []string
	parent := map[string]string{}
	for _, e := range Whole(entries) {
		thread := e.SubAgent()
		if thread != "" && t.entries[thread] == nil {
			threads = append(threads, thread)
		}
		if e.Agent != nil && e.Agent.Of != nil {
			parent[thread] = e.Agent.Of.Thread
		}
		t.entries[thread] = append(t.entries[thread], e)
	}
	for _, thread := range threads {
		of := parent[thread]
		if t.entries[of] == nil || of == thread {
			of = "" // nothing of its parent is on record
		}
		t.children[of] = append(t.children[of], thread)
	}
	t.add("", 0)
	for _, thread := range threads { // those whose parents are each other's
		t.add(thread, 1)
	}
	return t.all
}

type tree struct {
	entries  map[string][]protocol.Entry // by thread
	children map[string][]string         // by parent
	done     map[string]bool
	all      []TreeEntry
}

func (t *tree) add(thread string, depth int) {
	if t.done[thread] {
		return
	}
	t.done[thread] = true
	own := t.entries[thread]
	behind := map[int][]string{} // by the number of own entries before
	for _, c := range t.children[thread] {
		n := place(own, c, t.entries[c][0].Seq)
		behind[n] = append(behind[n], c)
	}
	for i := 0; i <= len(own); i++ {
		for _, c := range behind[i] {
			t.add(c, depth+1)
		}
		if i < len(own) {
			t.all = append(t.all, TreeEntry{Entry: own[i], Depth: depth, First: i == 0 && thread != ""})
		}
	}
}

// place returns how many of a thread's entries come before those of a sub-agent: up to the
// call that names it, or else all that are older than its first.
func place(own []protocol.Entry, child string, first int64) int {
	for i, e := range own {
		if e.Type == protocol.EntryTool && slices.Contains(strings.Fields(e.Data["agents"]), child) {
			return i + 1
		}
	}
	i := slices.IndexFunc(own, func(e protocol.Entry) bool { return e.Seq > first })
	if i < 0 {
		return len(own)
	}
	return i
}
