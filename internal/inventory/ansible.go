package inventory

import (
	"path/filepath"
	"slices"
	"strings"
)

func (r *reader) ansibleHost(name string, vars node, labels map[string]string) {
	if v, ok := first(vars, "ansible_connection"); ok && !slices.Contains([]string{"ssh", "smart", "paramiko", "paramiko_ssh", "ansible.builtin.ssh"}, v.text) {
		r.warn(name, Place{}, "host %s was left out: it is reached by %q and not by SSH", cut(name), cut(v.text))
		return
	}
	h := r.host(name, Place{})
	h.Address = name
	h.Labels = labels
	text := func(names ...string) string {
		v, ok := first(vars, names...)
		if !ok || v.kind == null {
			return ""
		}
		return r.plain(h, names[0], v)
	}
	if s := text("ansible_host", "ansible_ssh_host"); s != "" {
		h.Address = s
	}
	h.User = text("ansible_user", "ansible_ssh_user")
	h.Root = text("fairlead_root")
	h.KnownHosts = text("fairlead_known_hosts")
	if s := text("ansible_ssh_private_key_file", "ansible_private_key_file"); s != "" {
		h.Identity = r.home(s)
	}
	if v, ok := first(vars, "ansible_port", "ansible_ssh_port"); ok && v.kind != null {
		h.Port = r.number(h, "ansible_port", v, 65535)
	}
	if v, ok := first(vars, "fairlead_slots"); ok && v.kind != null {
		h.Slots = r.number(h, "fairlead_slots", v, 10_000)
	}
	if v, ok := first(vars, "fairlead_host_keys"); ok && v.kind != null {
		h.HostKeys = r.texts(h, "fairlead_host_keys", v)
	}
	r.ansibleLabels(h, vars)
	for _, name := range []string{"ansible_ssh_common_args", "ansible_ssh_extra_args", "ansible_ssh_args"} {
		if v, ok := vars.get(name); ok && v.kind != null {
			r.arguments(h, name, v)
		}
	}
	if v, ok := first(vars, "fairlead_jump"); ok && v.kind != null {
		h.via = r.plain(h, "fairlead_jump", v)
	}
	if _, ok := first(vars, "ansible_password", "ansible_ssh_pass", "ansible_ssh_password"); ok {
		r.warn(h.written, h.Place, "host %s: its password was left out: hosts are logged in to with keys", cut(h.written))
	}
}

func (r *reader) ansibleLabels(h *Host, vars node) {
	v, ok := vars.get("fairlead_labels")
	if !ok || v.kind == null {
		return
	}
	if v.kind == mapping {
		for k, value := range r.labels(h, "fairlead_labels", v) {
			h.Labels[k] = value
		}
		return
	}
	words, err := split(r.plain(h, "fairlead_labels", v))
	if err != nil {
		r.of(h.written, h.Place, "host %s: fairlead_labels: %v", cut(h.written), err)
	}
	for _, w := range words {
		if k, value, ok := strings.Cut(w.text, "="); ok {
			r.label(h, h.Labels, k, value, h.Place)
		} else {
			r.of(h.written, h.Place, "host %s: fairlead_labels: %q is not key=value", cut(h.written), cut(w.text))
		}
	}
}

// first returns the first of the named variables, which are synonyms.
func first(vars node, names ...string) (node, bool) {
	for _, n := range names {
		if v, ok := vars.get(n); ok {
			return v, true
		}
	}
	return node{}, false
}

// plain refuses a template or a vault.
func (r *reader) plain(h *Host, name string, v node) string {
	switch {
	case v.kind == secret:
		r.of(h.written, h.Place, "host %s: %s is in a vault, which only Ansible opens", cut(h.written), name)
	case strings.Contains(v.text, "{{") || strings.Contains(v.text, "{%"):
		r.of(h.written, h.Place, "host %s: %s is a template, which only Ansible fills in", cut(h.written), name)
	default:
		return r.text(h, name, v)
	}
	return ""
}

func (r *reader) home(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok && r.o.Home != "" {
		return filepath.Join(r.o.Home, rest)
	}
	return path
}

// arguments takes the relevant options of ssh's arguments.
func (r *reader) arguments(h *Host, name string, v node) {
	text := r.plain(h, name, v)
	words, err := split(text)
	if err != nil {
		r.of(h.written, h.Place, "host %s: %s: %v", cut(h.written), name, err)
		return
	}
	for i := 0; i < len(words); i++ {
		word := words[i].text
		next := func(short string) string { // -Xvalue or -X value
			if rest := strings.TrimPrefix(word, short); rest != "" {
				return rest
			}
			if i++; i < len(words) {
				return words[i].text
			}
			return ""
		}
		switch {
		case strings.HasPrefix(word, "-J"):
			h.via = next("-J")
		case strings.HasPrefix(word, "-o"):
			r.option(h, name, next("-o"))
		default:
			r.warn(h.written, h.Place, "%s: %s was left out", name, cut(word))
		}
	}
}

func (r *reader) option(h *Host, name, option string) {
	k, value, _ := strings.Cut(option, "=")
	if !strings.Contains(option, "=") {
		k, value, _ = strings.Cut(option, " ")
	}
	k, value = strings.ToLower(strings.TrimSpace(k)), strings.Trim(strings.TrimSpace(value), `"`)
	switch k {
	case "proxyjump":
		h.via = value
	case "proxycommand":
		r.proxyCommand(h, value)
	case "userknownhostsfile":
		r.pinFiles(h, strings.Fields(value))
	case "hostkeyalias":
		h.KeyName = value
	case "stricthostkeychecking":
		// Fairlead never trusts unknown host keys.
	default:
		r.warn(h.written, h.Place, "%s: the option %s was left out", name, cut(k))
	}
}

// proxyCommand refuses the host, because workers run no ProxyCommand.
func (r *reader) proxyCommand(h *Host, value string) {
	if value == "" || strings.EqualFold(value, "none") {
		return
	}
	r.of(h.written, h.Place, "host %s is reached by a ProxyCommand, which workers do not run: say ProxyJump, or leave it out with --only", cut(h.written))
}

func (r *reader) pinFiles(h *Host, files []string) {
	for _, f := range files {
		if f != "none" && f != "/dev/null" {
			h.PinFiles = append(h.PinFiles, r.home(f))
		}
	}
}
