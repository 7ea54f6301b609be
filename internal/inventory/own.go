package inventory

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

func (r *reader) take(err error) {
	var e *Error
	if errors.As(err, &e) {
		r.problems = append(r.problems, e.Problems...)
	}
}

var ownKeys = []string{"address", "user", "port", "labels", "slots", "jump", "identity", "root", "host_keys", "known_hosts"}

func (r *reader) own(data []byte) {
	root, err := fromYAML(data)
	if err != nil {
		r.take(err)
		return
	}
	if root.kind == null {
		return
	}
	if root.kind != mapping {
		r.add(root.at, "it is %s: an inventory is a mapping, such as\n    hosts:\n      web-1: {address: web-1.example}", root.what())
		return
	}
	for i, k := range root.keys {
		switch v := root.values[i]; {
		case k.name != "hosts":
			r.add(k.at, "%s: no such key: there is hosts", cut(k.name))
		case v.kind == null:
		case v.kind != mapping:
			r.add(v.at, "hosts is %s: it takes names of hosts with their settings", v.what())
		default:
			for j, name := range v.keys {
				if r.full() {
					return
				}
				r.ownHost(name, v.values[j])
			}
		}
	}
}

func (r *reader) ownHost(name key, v node) {
	h := r.host(name.name, name.at)
	if v.kind != mapping {
		r.of(h.written, name.at, "host %s needs an address, such as %s: {address: %s.example}", cut(name.name), cut(name.name), cut(name.name))
		return
	}
	for i, k := range v.keys {
		v := v.values[i]
		if v.kind == null && slices.Contains(ownKeys, k.name) {
			continue
		}
		switch h.said(k.name, v.at); k.name {
		case "address":
			h.Address = r.text(h, k.name, v)
		case "user":
			h.User = r.text(h, k.name, v)
		case "port":
			h.Port = r.number(h, k.name, v, 65535)
		case "slots":
			h.Slots = r.number(h, k.name, v, 10_000)
		case "jump":
			h.via = r.text(h, k.name, v)
		case "identity":
			h.Identity = r.text(h, k.name, v)
		case "root":
			h.Root = r.text(h, k.name, v)
		case "known_hosts":
			h.KnownHosts = r.text(h, k.name, v)
		case "host_keys":
			h.HostKeys = r.texts(h, k.name, v)
		case "labels":
			h.Labels = r.labels(h, k.name, v)
		default:
			r.of(h.written, k.at, "host %s: %s: no such key: there are %s", cut(h.written), cut(k.name), strings.Join(ownKeys, ", "))
		}
	}
	if _, said := h.Places["address"]; !said {
		r.of(h.written, name.at, "host %s needs an address", cut(name.name))
	}
}

func (r *reader) text(h *Host, what string, v node) string {
	if v.kind != scalar || v.text == "" {
		r.of(h.written, v.at, "host %s: %s is %s: it takes a text", cut(h.written), what, v.what())
		return ""
	}
	return v.text
}

func (r *reader) number(h *Host, what string, v node, most int) int {
	n, err := strconv.Atoi(v.text)
	if v.kind != scalar || err != nil || n < 1 || n > most {
		r.of(h.written, v.at, "host %s: %s takes a whole number from 1 to %d", cut(h.written), what, most)
		return 0
	}
	return n
}

func (r *reader) texts(h *Host, what string, v node) []string {
	all := []node{v}
	if v.kind == sequence {
		all = v.values
	}
	var out []string
	for _, e := range all {
		if t := r.text(h, what, e); t != "" {
			out = append(out, t)
		}
	}
	return out
}

func (r *reader) labels(h *Host, what string, v node) map[string]string {
	if v.kind != mapping {
		r.of(h.written, v.at, "host %s: %s is %s: it takes names with values, such as {gpu: no}", cut(h.written), what, v.what())
		return nil
	}
	out := map[string]string{}
	for i, k := range v.keys {
		switch e := v.values[i]; {
		case e.kind == scalar || e.kind == null:
			r.label(h, out, k.name, e.text, k.at)
		default:
			r.of(h.written, e.at, "host %s: label %s is %s: it takes one value", cut(h.written), cut(k.name), e.what())
		}
	}
	return out
}

func (r *reader) label(h *Host, labels map[string]string, name, value string, at Place) {
	if !labelPattern(name) {
		r.of(h.written, at, "host %s: label %q: its name has letters that no selector takes", cut(h.written), cut(name))
		return
	}
	labels[name] = value
}

// labelPattern reports whether a selector can name the label.
func labelPattern(name string) bool {
	return name != "" && !strings.ContainsAny(name, "=!<>, \t\n'\"")
}
