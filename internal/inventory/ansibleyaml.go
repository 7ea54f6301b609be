package inventory

// ansibleYAML reads an inventory of groups.
func (r *reader) ansibleYAML(data []byte) {
	root, err := fromYAML(data)
	if err != nil {
		r.take(err)
		return
	}
	if root.kind != mapping && root.kind != null {
		r.add(root.at, "it is %s: an Ansible inventory is a mapping of groups, such as all: {hosts: {web-1: {}}}", root.what())
		return
	}
	g := newGroups(r)
	for i, k := range root.keys {
		g.yamlGroup(k, root.values[i])
	}
	g.finish()
}

func (g *groups) yamlGroup(name key, v node) *hostGroup {
	of := g.group(name.name, name.at)
	of.said = true
	if v.kind == null {
		return of
	}
	if v.kind != mapping {
		g.r.add(v.at, "group %s is %s: it takes hosts, children and vars", cut(name.name), v.what())
		return of
	}
	for i, k := range v.keys {
		v := v.values[i]
		if v.kind == null {
			continue
		}
		entries := v
		if v.kind == scalar && k.name != "vars" { // a single name
			entries = node{kind: mapping, at: v.at, keys: []key{{v.text, v.at}}, values: []node{{at: v.at}}}
		}
		switch {
		case k.name != "hosts" && k.name != "children" && k.name != "vars":
			g.r.add(k.at, "group %s: %s: no such key: there are hosts, children and vars", cut(name.name), cut(k.name))
		case entries.kind != mapping:
			g.r.add(v.at, "group %s: %s is %s: it takes names with what is said of them", cut(name.name), k.name, v.what())
		case k.name == "hosts":
			for j, h := range entries.keys {
				g.add(of, h.name, h.at, g.yamlVars(h, entries.values[j]))
			}
		case k.name == "children":
			for j, c := range entries.keys {
				g.yamlGroup(c, entries.values[j])
				of.children = append(of.children, c)
			}
		default:
			for name, value := range g.yamlVars(k, entries) {
				of.vars[name] = value
			}
		}
	}
	return of
}

func (g *groups) yamlVars(of key, v node) map[string]node {
	switch v.kind {
	case null:
		return nil
	case mapping:
	default:
		g.r.add(v.at, "%s is %s: it takes variables with values", cut(of.name), v.what())
		return nil
	}
	out := map[string]node{}
	for i, k := range v.keys {
		out[k.name] = v.values[i]
	}
	return out
}
