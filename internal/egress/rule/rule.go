// Package rule has the rules of what commands of a session may reach through a worker.
package rule

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"fairlead.dev/fairlead/internal/protocol"
)

const (
	// Most bounds the addresses that a session or a configuration names.
	Most = 64
	// maxHostName is the longest name that DNS has, in bytes.
	maxHostName = 253
)

// A Rule names what the programs of a session may reach through a worker: a host, or all hosts
// below a name, at one port.
type Rule struct {
	Name  string // in small letters
	Below bool   // *.Name: all names that end in .Name, not Name itself
	Port  uint16
}

// Parse reads HOST:PORT or *.HOST:PORT. A host is a name, not an address.
func Parse(text string) (Rule, error) {
	host, port, ok := strings.Cut(text, ":")
	n, err := strconv.ParseUint(port, 10, 16)
	if !ok || err != nil || n == 0 || port[0] == '0' || port[0] == '+' {
		return Rule{}, fmt.Errorf("%q is not HOST:PORT, such as github.com:443 or *.example.com:443", cut(text))
	}
	name, below := strings.CutPrefix(strings.ToLower(host), "*.")
	if err := CheckHostName(name); err != nil {
		return Rule{}, fmt.Errorf("%q: %w", cut(text), err)
	}
	return Rule{Name: name, Below: below, Port: uint16(n)}, nil
}

// CheckHostName refuses what is no name of a host, such as an address.
func CheckHostName(name string) error {
	if len(name) > maxHostName {
		return fmt.Errorf("the name of the host has %d bytes, at most %d", len(name), maxHostName)
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return fmt.Errorf("it is an address: give the name of the host")
	}
	labels := strings.Split(name, ".")
	for _, label := range labels {
		strange := strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_")
		if label == "" || len(label) > 63 || strange != "" || label[0] == '-' || label[len(label)-1] == '-' {
			return fmt.Errorf("the host is no name of small letters, digits, hyphens and dots")
		}
	}
	last := labels[len(labels)-1]
	if strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") {
		return fmt.Errorf("the name of the host ends like an address: give a name") // some systems read it as one
	}
	return nil
}

func (r Rule) String() string {
	star := ""
	if r.Below {
		star = "*."
	}
	return fmt.Sprintf("%s%s:%d", star, r.Name, r.Port)
}

// Matches reports whether the rule permits a host, which is in small letters, at a port.
func (r Rule) Matches(host string, port uint16) bool {
	if r.Port != port {
		return false
	}
	if r.Below {
		return strings.HasSuffix(host, "."+r.Name)
	}
	return host == r.Name
}

// Covers reports whether the rule permits all that another rule permits.
func (r Rule) Covers(other Rule) bool {
	return r.Port == other.Port && (r == other || r.Below && strings.HasSuffix(other.Name, "."+r.Name))
}

// ParseAll reads a list of HOST:PORT.
func ParseAll(list []string) (rules []Rule, err error) {
	if len(list) > Most {
		return nil, fmt.Errorf("%d addresses, at most %d", len(list), Most)
	}
	for _, text := range list {
		r, err := Parse(text)
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// Uncovered returns the first of the rules that none of allowed covers. ok is false if there is none.
func Uncovered(rules, allowed []Rule) (_ Rule, ok bool) {
	for _, r := range rules {
		if !slices.ContainsFunc(allowed, func(a Rule) bool { return a.Covers(r) }) {
			return r, true
		}
	}
	return Rule{}, false
}

// CheckOptions refuses what a session asks for if its commands could not use it.
//
//workflowcheck:ignore // a pure function
func CheckOptions(list []string, credentials, sandbox, network string) error {
	if len(list) == 0 {
		return nil
	}
	if _, err := ParseAll(list); err != nil {
		return fmt.Errorf("egress: %w", err)
	}
	switch {
	case credentials != "" && credentials != protocol.CredentialsGateway:
		return fmt.Errorf("egress goes through the model gateway: the session needs --credentials gateway, not %s", credentials)
	case network == protocol.NetworkHosts:
		return fmt.Errorf("egress: codex's own proxy, which --network HOST needs, does not reach the port of the worker: use --network on")
	case sandbox == protocol.FullAccess, network == protocol.NetworkOn:
	case sandbox == protocol.ByProfile && network == "":
	default:
		return fmt.Errorf("egress: commands reach no port of their host without the network: add --network on")
	}
	return nil
}

// cut bounds what an error shows of a text.
func cut(text string) string { return text[:min(len(text), 100)] }
