package inventory

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Write writes hosts, sorted by name, so that Parse reads the same hosts. Of a jump host
// that is not among them, only the name is written.
func Write(format Format, hosts []Host) ([]byte, error) {
	hosts = slices.Clone(hosts)
	slices.SortFunc(hosts, func(a, b Host) int { return strings.Compare(a.Name, b.Name) })
	var b bytes.Buffer
	switch format {
	case YAML:
		writeYAML(&b, hosts)
	case AnsibleYAML:
		if err := writeAnsible(&b, hosts); err != nil {
			return nil, err
		}
	case SSHConfig:
		if err := writeSSH(&b, hosts); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("%q is not written: there are %s", format, list([]Format{YAML, AnsibleYAML, SSHConfig}))
	}
	return b.Bytes(), nil
}

var (
	plainText = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9._/@+=-]*( [A-Za-z0-9._/@+=-]+)*$`)
	// Words that YAML 1.1, which Ansible reads, does not read as strings.
	notText = regexp.MustCompile(`(?i)^(y|n|yes|no|true|false|on|off|null)$`)
)

// yamlText writes what every YAML reader reads as a string.
func yamlText(s string) string {
	if plainText.MatchString(s) && !notText.MatchString(s) {
		return s
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return strconv.Quote(s)
	}
	return strings.TrimSpace(b.String())
}

func yamlLabels(labels map[string]string) string {
	var parts []string
	for _, k := range sortedNames(labels) {
		parts = append(parts, yamlText(k)+": "+yamlText(labels[k]))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func sortedNames(m map[string]string) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

type yamlHost struct {
	b      *bytes.Buffer
	indent string
}

func (y yamlHost) text(k, v string) {
	if v != "" {
		fmt.Fprintf(y.b, "%s%s: %s\n", y.indent, k, yamlText(v))
	}
}

func (y yamlHost) number(k string, n int) {
	if n > 0 {
		fmt.Fprintf(y.b, "%s%s: %d\n", y.indent, k, n)
	}
}

func (y yamlHost) labels(k string, v map[string]string) {
	if len(v) > 0 {
		fmt.Fprintf(y.b, "%s%s: %s\n", y.indent, k, yamlLabels(v))
	}
}

func (y yamlHost) texts(k string, v []string) {
	if len(v) > 0 {
		fmt.Fprintf(y.b, "%s%s:\n", y.indent, k)
	}
	for _, s := range v {
		fmt.Fprintf(y.b, "%s  - %s\n", y.indent, yamlText(s))
	}
}

func writeYAML(b *bytes.Buffer, hosts []Host) {
	if len(hosts) == 0 {
		b.WriteString("hosts: {}\n")
		return
	}
	b.WriteString("hosts:\n")
	for _, h := range hosts {
		fmt.Fprintf(b, "  %s:\n", yamlText(h.Name))
		y := yamlHost{b, "    "}
		y.text("address", h.Address)
		y.text("user", h.User)
		y.number("port", h.Port)
		y.labels("labels", h.Labels)
		y.number("slots", h.Slots)
		y.text("jump", h.Jump)
		y.text("identity", h.Identity)
		y.text("root", h.Root)
		y.texts("host_keys", h.HostKeys)
		y.text("known_hosts", h.KnownHosts)
	}
}

func writeAnsible(b *bytes.Buffer, hosts []Host) error {
	if len(hosts) == 0 {
		b.WriteString("all:\n  hosts: {}\n")
		return nil
	}
	b.WriteString("all:\n  hosts:\n")
	for _, h := range hosts {
		for _, v := range append(slices.Collect(maps.Values(h.Labels)), h.Address, h.User, h.Identity, h.Root, h.KnownHosts) {
			if strings.Contains(v, "{{") || strings.Contains(v, "{%") || strings.Contains(v, "{#") {
				return fmt.Errorf("host %s: Ansible would read %q as a template: export as yaml instead", h.Name, v)
			}
		}
		fmt.Fprintf(b, "    %s:\n", yamlText(h.Name))
		y := yamlHost{b, "      "}
		y.text("ansible_host", h.Address)
		y.text("ansible_user", h.User)
		y.number("ansible_port", h.Port)
		y.text("ansible_ssh_private_key_file", h.Identity)
		if way := jumpsOf(hosts, h); way != "" {
			y.text("ansible_ssh_common_args", "-o ProxyJump="+way)
		}
		y.labels("fairlead_labels", h.Labels)
		y.number("fairlead_slots", h.Slots)
		y.text("fairlead_root", h.Root)
		y.text("fairlead_jump", h.Jump)
		y.texts("fairlead_host_keys", h.HostKeys)
		y.text("fairlead_known_hosts", h.KnownHosts)
	}
	return nil
}

// jumpsOf returns the hops to a host for ssh's ProxyJump, by address.
func jumpsOf(hosts []Host, h Host) string {
	var way []string
	for range hosts {
		i := slices.IndexFunc(hosts, func(o Host) bool { return h.Jump != "" && o.Name == h.Jump })
		if i < 0 {
			break
		}
		h = hosts[i]
		hop := h.Address
		if strings.Contains(hop, ":") {
			hop = "[" + hop + "]"
		}
		if h.Port > 0 {
			hop = net.JoinHostPort(h.Address, strconv.Itoa(h.Port))
		}
		if h.User != "" {
			hop = h.User + "@" + hop
		}
		way = append(way, hop)
	}
	slices.Reverse(way)
	return strings.Join(way, ",")
}

func writeSSH(b *bytes.Buffer, hosts []Host) error {
	for i, h := range hosts {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(b, "Host %s\n", h.Name)
		var bad error
		line := func(k, v string) {
			if v == "" {
				return
			}
			if strings.ContainsFunc(v, unicode.IsControl) || strings.TrimSpace(v) != v {
				bad = fmt.Errorf("host %s: %s %q cannot be written to an OpenSSH config: export as yaml instead", h.Name, strings.TrimPrefix(k, "# fairlead: "), v)
			}
			if !strings.HasPrefix(k, "#") {
				v = sshText(v)
			}
			fmt.Fprintf(b, "    %s %s\n", k, v)
		}
		number := func(k string, n int) {
			if n > 0 {
				line(k, strconv.Itoa(n))
			}
		}
		line("HostName", strings.ReplaceAll(h.Address, "%", "%%"))
		line("User", h.User)
		number("Port", h.Port)
		line("IdentityFile", strings.ReplaceAll(h.Identity, "%", "%%"))
		line("ProxyJump", h.Jump)
		number("# fairlead: slots", h.Slots)
		for _, k := range sortedNames(h.Labels) {
			line("# fairlead: label", k+"="+h.Labels[k])
		}
		line("# fairlead: root", h.Root)
		for _, k := range h.HostKeys {
			line("# fairlead: host_key", k)
		}
		line("# fairlead: known_hosts", h.KnownHosts)
		if bad != nil {
			return bad
		}
	}
	return nil
}

func sshText(s string) string {
	if !strings.ContainsAny(s, " \t\"'\\#") {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
