package seeds

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"fairlead.dev/fairlead/internal/protocol"
)

// A Confinement is what a session asks for beyond its sandbox mode.
type Confinement struct {
	// Profile is a permission profile of the seed's config.toml (sandbox ByProfile).
	Profile string `json:"profile,omitempty"`
	// Commands may only read the paths in Read, and may write the folders in Write. All are
	// absolute paths on the host.
	Read  []string `json:"read,omitempty"`
	Write []string `json:"write,omitempty"`
	// Network is off, on or hosts.
	Network string   `json:"network,omitempty"`
	Hosts   []string `json:"hosts,omitempty"`
}

// None reports whether nothing is asked.
func (c Confinement) None() bool {
	return c.Profile == "" && len(c.Read)+len(c.Write)+len(c.Hosts) == 0 && c.Network == ""
}

// A Confinement is stored in the session's workflow, so its size is limited.
const (
	maxConfinePaths = 64
	maxConfineHosts = 64
	maxConfineText  = 8 << 10
)

var (
	profileName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$`)
	sixPattern  = regexp.MustCompile(`^[0-9a-f]{0,4}(:[0-9a-f]{0,4}){2,7}$`) // an IPv6 address
	hostPattern = regexp.MustCompile(`^(\*\*?\.)?[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*$`)
)

// Check refuses a Confinement that contradicts itself or can hold on no host. Its errors
// name flags of the command line.
func (c Confinement) Check(sandbox string) error {
	if err := c.checkMode(sandbox); err != nil {
		return err
	}
	if err := c.checkNetwork(); err != nil {
		return err
	}
	if n := len(c.Read) + len(c.Write); n > maxConfinePaths {
		return fmt.Errorf("--read and --write name %d paths, at most %d", n, maxConfinePaths)
	}
	total := 0
	seen := map[string]string{}
	for _, p := range c.paths() {
		total += len(p.path)
		switch was := seen[p.path]; {
		case !path.IsAbs(p.path) || path.Clean(p.path) != p.path:
			return fmt.Errorf("%s %q is not a clean absolute path on the host", p.flag, p.path)
		case !writable(p.path) || strings.ContainsFunc(p.path, func(r rune) bool { return r < ' ' || r == 0x7f }):
			return fmt.Errorf("%s %q has characters in it that codex cannot take", p.flag, p.path)
		case strings.ContainsAny(p.path, "*?[]"):
			return fmt.Errorf("%s %q has one of * ? [ ] in it, which codex takes for wildcards", p.flag, p.path)
		case p.flag == "--write" && p.path == "/":
			return errors.New("--write / leaves nothing confined (use --sandbox danger-full-access if that is meant)")
		case was != "":
			return fmt.Errorf("%s %s is given twice, by %s too", p.flag, p.path, was)
		}
		seen[p.path] = p.flag
	}
	if total > maxConfineText {
		return fmt.Errorf("--read and --write take %d bytes, at most %d", total, maxConfineText)
	}
	return nil
}

func (c Confinement) checkMode(sandbox string) error {
	switch {
	case sandbox == protocol.ByProfile && c.Profile == "":
		return errors.New("sandbox profile needs the name of a permission profile (--profile)")
	case sandbox != protocol.ByProfile && c.Profile != "":
		return fmt.Errorf("--profile %s says what commands may do, and so does --sandbox %s: give one of them", c.Profile, sandbox)
	case c.Profile != "" && (!profileName.MatchString(c.Profile) || strings.HasPrefix(c.Profile, profileWrite)):
		return fmt.Errorf("--profile %.100q is no name of a permission profile in a config.toml", c.Profile)
	case sandbox == protocol.FullAccess && (len(c.Read)+len(c.Write) > 0 || c.Network == protocol.NetworkOff || c.Network == protocol.NetworkHosts):
		return errors.New("--sandbox danger-full-access confines nothing, so --read, --write and --network off or by host cannot hold (use workspace-write or read-only)")
	}
	return nil
}

func (c Confinement) checkNetwork() error {
	switch c.Network {
	case "", protocol.NetworkOff, protocol.NetworkOn:
		if len(c.Hosts) > 0 {
			return fmt.Errorf("--network %s names hosts as well", orDefault(c.Network, "of the sandbox"))
		}
		return nil
	case protocol.NetworkHosts:
	default:
		return fmt.Errorf("--network %.100q: use on, off or a list of hosts", c.Network)
	}
	switch {
	case c.Profile != "":
		return fmt.Errorf("--profile %s says itself which hosts may be reached; leave --network HOST out", c.Profile)
	case len(c.Hosts) == 0 || len(c.Hosts) > maxConfineHosts:
		return fmt.Errorf("--network names %d hosts, at least 1 and at most %d", len(c.Hosts), maxConfineHosts)
	}
	for i, h := range c.Hosts {
		if err := checkHost(h); err != nil {
			return err
		}
		if slices.Contains(c.Hosts[:i], h) {
			return fmt.Errorf("--network names %s twice", h)
		}
	}
	return nil
}

// checkHost accepts what codex's proxy does: names, *.names and addresses, no ports.
func checkHost(h string) error {
	switch {
	case sixPattern.MatchString(h):
		return nil
	case h == "*" || h == "**":
		return errors.New("--network * is every host (use --network on)")
	case len(h) > 253 || !hostPattern.MatchString(h):
		return fmt.Errorf("--network %.100q is no name of a host (as api.example.com or *.example.com, with no port and no scheme)", h)
	}
	return nil
}

type namedPath struct{ flag, path string }

func (c Confinement) paths() []namedPath {
	var all []namedPath
	for _, p := range c.Read {
		all = append(all, namedPath{"--read", p})
	}
	for _, p := range c.Write {
		all = append(all, namedPath{"--write", p})
	}
	return all
}

func orDefault(s, or string) string {
	if s == "" {
		return or
	}
	return s
}

func (c Confinement) profileBase(sandbox string) string {
	if sandbox == protocol.ByProfile {
		return c.Profile
	}
	return builtIn(sandbox)
}

func builtIn(sandbox string) string {
	if sandbox == protocol.ReadOnly {
		return ":read-only"
	}
	return ":workspace"
}

// settings leaves out the entries that protect CODEX_HOME.
func (c Confinement) settings(profile string) []setting {
	var out []setting
	add := func(table []string, key, value string) {
		out = append(out, setting{table: table, key: key, value: value, must: true})
	}
	for _, p := range c.paths() {
		access := "read"
		if p.flag == "--write" {
			access = "write"
		}
		add([]string{"permissions", profile, "filesystem"}, p.path, tomlString(access))
	}
	if c.Network != "" {
		add([]string{"permissions", profile, "network"}, "enabled", tomlBool(c.Network != protocol.NetworkOff))
	}
	for _, h := range c.Hosts {
		add([]string{"permissions", profile, "network", "domains"}, h, tomlString("allow"))
	}
	return out
}

// proxySetting turns codex's proxy on or off; nil if it does not matter or the seed sets
// it.
func (c Confinement) proxySetting(b *Bundle) []setting {
	needs := c.NeedsProxy(b)
	if _, said := proxySaid(b); said || !needs && c.Network != protocol.NetworkOn {
		return nil
	}
	return []setting{{table: []string{"features"}, key: "network_proxy", value: tomlBool(needs), must: true}}
}

// proxySaid returns whether the seed sets codex's proxy, and to what.
func proxySaid(b *Bundle) (on, said bool) {
	if b == nil {
		return false, false
	}
	if own, err := settingsOf(b.File(settingsFile)); err == nil && own != nil {
		if on, said = own.Features["network_proxy"]; said {
			return on, said
		}
	}
	doc, err := parseConfig(b.File(configFile))
	if err != nil {
		return false, false // Plant reports it
	}
	v, said := lookup(doc, []string{"features", "network_proxy"})
	on, _ = v.(bool)
	return on, said
}

// NeedsProxy reports whether codex needs its proxy: some hosts are allowed and others not.
func (c Confinement) NeedsProxy(b *Bundle) bool {
	if c.Network != "" || c.Profile == "" || b == nil {
		return c.Network == protocol.NetworkHosts
	}
	profiles, err := profilesOf(b)
	if err != nil {
		return false // Plant reports it
	}
	for name, hops := c.Profile, 0; hops < 32; hops++ {
		p, _ := profiles[name].(map[string]any)
		network, _ := p["network"].(map[string]any)
		for _, key := range []string{"domains", "allowed_domains", "denied_domains", "mode"} {
			if _, says := network[key]; says {
				return true
			}
		}
		if name, _ = p["extends"].(string); name == "" {
			break
		}
	}
	return false
}

func profilesOf(b *Bundle) (map[string]any, error) {
	f := b.File(configFile)
	if f == nil {
		return nil, nil
	}
	doc, err := parseConfig(f)
	if err != nil {
		return nil, err
	}
	profiles, _ := doc["permissions"].(map[string]any)
	return profiles, nil
}

// CheckSeed refuses a profile that the seed lacks, and a seed that sets codex's proxy the
// wrong way: with the proxy, commands with network "on" reach nothing; without it, codex
// ignores a list of hosts (both measured).
func (c Confinement) CheckSeed(b *Bundle) error {
	needs := c.NeedsProxy(b)
	if on, said := proxySaid(b); said && (needs && !on || c.Network == protocol.NetworkOn && on) {
		return fmt.Errorf("the seed sets features.network_proxy = %v, with which codex cannot give the requested network access (remove it from the seed)", on)
	}
	if c.Profile == "" {
		return nil
	}
	var profiles map[string]any
	if b != nil {
		var err error
		if profiles, err = profilesOf(b); err != nil {
			return err
		}
	}
	if _, is := profiles[c.Profile].(map[string]any); is {
		return nil
	}
	has := "none"
	if names := slices.Sorted(maps.Keys(profiles)); len(names) > 0 {
		has = strings.Join(names, ", ")
	}
	return fmt.Errorf("the seed's config.toml defines no permission profile %s (it has: %s)", c.Profile, has)
}

// DecoyFor returns a Decoy with the seed's permission profiles, for a trial.
func DecoyFor(c Confinement, b *Bundle) (decoy *Bundle, mark string, err error) {
	decoy, mark = Decoy()
	if c.Profile == "" || b == nil {
		return decoy, mark, nil
	}
	profiles, err := profilesOf(b)
	if err != nil {
		return nil, "", err
	}
	text, err := toml.Marshal(map[string]any{"permissions": profiles})
	if err != nil {
		return nil, "", fmt.Errorf("write down the seed's permission profiles: %w", err)
	}
	for i, f := range decoy.files {
		if f.path == configFile {
			decoy.files[i].data = slices.Concat(f.data, text)
		}
	}
	return decoy, mark, nil
}
