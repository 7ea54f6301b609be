package inventory

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
)

var listEnv = []string{
	"ANSIBLE_INVENTORY_EXPORT=false",                // each host with all its variables
	"ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED=true", // a file that it cannot read is an error
	"ANSIBLE_VERBOSITY=0", "ANSIBLE_DEBUG=false", "ANSIBLE_NOCOLOR=1", "ANSIBLE_FORCE_COLOR=false",
}

func (r *reader) ansible(ctx context.Context, data []byte) error {
	path := r.o.Path
	if path == "" {
		var remove func()
		var err error
		if path, remove, err = temporary(data); err != nil {
			return err
		}
		defer remove()
	}
	out, said, err := run(ctx, MaxList, listEnv, "ansible-inventory", "-i", path, "--list")
	var failed *failedError
	if errors.As(err, &failed) {
		r.add(Place{}, "ansible-inventory cannot read it: %s", r.unwrapped(failed.said, path))
		return nil
	}
	if err != nil {
		return err
	}
	if said != "" {
		r.warn("", Place{}, "ansible-inventory says: %s", r.unwrapped(said, path))
	}
	r.list(out)
	return nil
}

var listMessage = regexp.MustCompile(`^(\[[A-Z ]+\]|ERROR)`)

// unwrapped joins the lines of Ansible's messages, which are wrapped to a terminal.
func (r *reader) unwrapped(said, path string) string {
	var b strings.Builder
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		switch {
		case b.Len() == 0:
		case listMessage.MatchString(line):
			b.WriteString("\n    ")
		default:
			b.WriteByte(' ')
		}
		b.WriteString(line)
	}
	if r.o.Path != "" {
		return b.String()
	}
	return strings.ReplaceAll(b.String(), path, r.o.Name)
}

// isList reports whether a file is output of `ansible-inventory --list`.
func isList(data []byte) bool {
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return false
	}
	var list struct {
		Meta json.RawMessage `json:"_meta"`
	}
	return json.Unmarshal(data, &list) == nil && len(list.Meta) > 0
}

type listedGroup struct {
	Hosts    []string        `json:"hosts"`
	Children []string        `json:"children"`
	Vars     json.RawMessage `json:"vars"`
}

func (r *reader) list(data []byte) {
	var meta struct {
		Meta struct {
			Hostvars map[string]json.RawMessage `json:"hostvars"`
		} `json:"_meta"`
	}
	groups := map[string]listedGroup{}
	raw := map[string]json.RawMessage{}
	if err := errors.Join(json.Unmarshal(data, &meta), json.Unmarshal(data, &raw)); err != nil {
		r.add(Place{}, "it is not the JSON that `ansible-inventory --list` prints: %s", firstLine(err.Error()))
		return
	}
	delete(raw, "_meta")
	hosts := map[string]bool{}
	parents := map[string][]string{}
	inGroups := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		var of listedGroup
		if err := json.Unmarshal(raw[name], &of); err != nil || len(of.Vars) > 0 {
			r.add(Place{}, "group %s is not as `ansible-inventory --list` prints it, without --export", cut(name))
			continue
		}
		groups[name] = of
		for _, child := range of.Children {
			parents[child] = append(parents[child], name)
		}
		for _, host := range of.Hosts {
			hosts[host] = true
			inGroups[host] = append(inGroups[host], name)
		}
	}
	for host := range meta.Meta.Hostvars {
		hosts[host] = true
	}
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		if r.full() {
			return
		}
		vars, err := fromJSON(meta.Meta.Hostvars[name])
		if err != nil || vars.kind != mapping && vars.kind != null {
			r.of(name, Place{}, "host %s: its variables are no mapping", cut(name))
			continue
		}
		labels := map[string]string{}
		r.groupLabels(name, labels, inGroups[name], parents)
		r.ansibleHost(name, vars, labels)
	}
}

// groupLabels adds a label for each group and the groups that contain it.
func (r *reader) groupLabels(host string, labels map[string]string, groups []string, parents map[string][]string) {
	for _, name := range groups {
		label := "group." + name
		if _, seen := labels[label]; seen || name == "all" || name == "ungrouped" {
			continue
		}
		if !labelPattern(label) {
			r.of(host, Place{}, "host %s: the name of its group %q has letters that no selector takes", cut(host), cut(name))
			continue
		}
		labels[label] = "yes"
		r.groupLabels(host, labels, parents[name], parents)
	}
}

// fromJSON returns a JSON value as a node. Empty data becomes null.
func fromJSON(data []byte) (node, error) {
	if len(data) == 0 {
		return node{}, nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return nodeOf(v), err
}

func nodeOf(v any) node {
	switch v := v.(type) {
	case string:
		return node{kind: scalar, text: v}
	case json.Number:
		return node{kind: scalar, text: v.String()}
	case bool:
		if v {
			return node{kind: scalar, text: "true"}
		}
		return node{kind: scalar, text: "false"}
	case []any:
		n := node{kind: sequence}
		for _, e := range v {
			n.values = append(n.values, nodeOf(e))
		}
		return n
	case map[string]any:
		if v["__ansible_vault"] != nil || v["__ansible_unsafe"] != nil {
			return node{kind: secret}
		}
		n := node{kind: mapping}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			n.keys, n.values = append(n.keys, key{name: k}), append(n.values, nodeOf(v[k]))
		}
		return n
	}
	return node{}
}
