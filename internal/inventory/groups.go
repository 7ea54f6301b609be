package inventory

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// groups collects an Ansible inventory: groups with children, hosts, and their
// variables.
type groups struct {
	r      *reader
	byName map[string]*hostGroup
	inTurn []*hostGroup
	hosts  map[string]*member
	seen   []*member
}

type hostGroup struct {
	name     string
	at       Place
	said     bool // it has a section of its own, or is a group in YAML
	vars     map[string]node
	children []key
	parents  []*hostGroup
	depth    int
	walking  bool
	done     bool
}

type member struct {
	name   string
	at     Place
	port   int // from its name
	vars   map[string]node
	groups []*hostGroup
}

func newGroups(r *reader) *groups {
	return &groups{r: r, byName: map[string]*hostGroup{}, hosts: map[string]*member{}}
}

func (g *groups) group(name string, at Place) *hostGroup {
	h := g.byName[name]
	if h == nil {
		h = &hostGroup{name: name, at: at, vars: map[string]node{}}
		g.byName[name] = h
		g.inTurn = append(g.inTurn, h)
	}
	return h
}

// add adds the hosts that a pattern names to a group, with the variables.
func (g *groups) add(of *hostGroup, pattern string, at Place, vars map[string]node) {
	names, port, err := expand(pattern)
	if err != nil {
		g.r.add(at, "%v", err)
		return
	}
	for _, name := range names {
		m := g.hosts[name]
		if m == nil {
			if len(g.seen) == MaxHosts {
				g.r.add(at, "more than %d hosts", MaxHosts)
				return
			}
			m = &member{name: name, at: at, vars: map[string]node{}}
			g.hosts[name] = m
			g.seen = append(g.seen, m)
		}
		if port > 0 {
			m.port = port
		}
		if !slices.Contains(m.groups, of) {
			m.groups = append(m.groups, of)
		}
		for k, v := range vars {
			m.vars[k] = v
		}
	}
}

// finish makes the hosts from what was read.
func (g *groups) finish() {
	for _, of := range g.inTurn {
		for _, c := range of.children {
			child := g.byName[c.name]
			switch {
			case child == nil || !child.said:
				g.r.add(c.at, "group %s has the child %s, and there is no such group", cut(of.name), cut(c.name))
			case !slices.Contains(child.parents, of):
				child.parents = append(child.parents, of)
			}
		}
	}
	for _, of := range g.inTurn {
		if !g.deepen(of) {
			return
		}
	}
	for _, m := range g.seen {
		g.host(m)
	}
}

// deepen computes the depth of a group below all. It returns false on a cycle.
func (g *groups) deepen(of *hostGroup) bool {
	if of.walking {
		g.r.add(of.at, "group %s is a child of itself, by way of its children", cut(of.name))
		return false
	}
	if of.done {
		return true
	}
	of.walking = true
	if of.name != "all" {
		of.depth = 1
	}
	for _, p := range of.parents {
		if !g.deepen(p) {
			return false
		}
		of.depth = max(of.depth, p.depth+1)
	}
	of.walking, of.done = false, true
	return true
}

// priority is Ansible's sort key for groups of equal depth, before their names.
func (of *hostGroup) priority() int {
	n, err := strconv.Atoi(of.vars["ansible_group_priority"].text)
	if err != nil {
		return 1
	}
	return n
}

func (g *groups) host(m *member) {
	in := map[*hostGroup]bool{}
	var climb func(of *hostGroup)
	climb = func(of *hostGroup) {
		if !in[of] {
			in[of] = true
			for _, p := range of.parents {
				climb(p)
			}
		}
	}
	for _, of := range m.groups {
		climb(of)
	}
	if all := g.byName["all"]; all != nil {
		in[all] = true
	}
	var line []*hostGroup
	for of := range in {
		line = append(line, of)
	}
	slices.SortFunc(line, func(a, b *hostGroup) int {
		return cmp.Or(cmp.Compare(a.depth, b.depth), cmp.Compare(a.priority(), b.priority()), strings.Compare(a.name, b.name))
	})
	vars := map[string]node{}
	for _, of := range line {
		for k, v := range of.vars {
			vars[k] = v
		}
	}
	if m.port > 0 {
		vars["ansible_port"] = node{kind: scalar, at: m.at, text: strconv.Itoa(m.port)}
	}
	for k, v := range m.vars {
		vars[k] = v
	}
	labels := map[string]string{}
	h := Host{written: m.name, Place: m.at}
	for _, of := range line {
		if of.name != "all" && of.name != "ungrouped" {
			g.r.label(&h, labels, "group."+of.name, "yes", of.at)
		}
	}
	g.r.ansibleHost(m, vars, labels)
}
