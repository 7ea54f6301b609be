package seeds

import (
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/protocol"
)

func TestConfinementThatCannotHoldIsRefusedBeforeAnyHost(t *testing.T) {
	many := make([]string, maxConfineHosts+1)
	for i := range many {
		many[i] = "h" + strings.Repeat("x", i+1) + ".example.com"
	}
	for name, c := range map[string]struct {
		sandbox string
		c       Confinement
		says    string
	}{
		"nothing asked":                {protocol.WorkspaceWrite, Confinement{}, ""},
		"full access, network on":      {protocol.FullAccess, Confinement{Network: protocol.NetworkOn}, ""},
		"all of it":                    {protocol.ReadOnly, Confinement{Read: []string{"/a"}, Write: []string{"/b c"}, Network: protocol.NetworkHosts, Hosts: []string{"*.example.com", "10.0.0.1", "fe80::1", "localhost"}}, ""},
		"a profile":                    {protocol.ByProfile, Confinement{Profile: "dev", Write: []string{"/b"}, Network: protocol.NetworkOff}, ""},
		"full access with a path":      {protocol.FullAccess, Confinement{Read: []string{"/a"}}, "confines nothing"},
		"full access without network":  {protocol.FullAccess, Confinement{Network: protocol.NetworkOff}, "confines nothing"},
		"full access to some hosts":    {protocol.FullAccess, Confinement{Network: protocol.NetworkHosts, Hosts: []string{"a"}}, "confines nothing"},
		"a relative path":              {protocol.ReadOnly, Confinement{Read: []string{"a"}}, "not a clean absolute path"},
		"a path that climbs":           {protocol.ReadOnly, Confinement{Read: []string{"/a/../b"}}, "not a clean absolute path"},
		"a wildcard":                   {protocol.ReadOnly, Confinement{Write: []string{"/a/*"}}, "wildcards"},
		"two lines":                    {protocol.ReadOnly, Confinement{Write: []string{"/a\n/b"}}, "cannot take"},
		"no UTF-8":                     {protocol.ReadOnly, Confinement{Write: []string{"/\xff"}}, "cannot take"},
		"all of the host":              {protocol.WorkspaceWrite, Confinement{Write: []string{"/"}}, "leaves nothing confined"},
		"one path for both":            {protocol.WorkspaceWrite, Confinement{Read: []string{"/a"}, Write: []string{"/a"}}, "given twice"},
		"too many hosts":               {protocol.WorkspaceWrite, Confinement{Network: protocol.NetworkHosts, Hosts: many}, "at most 64"},
		"no hosts":                     {protocol.WorkspaceWrite, Confinement{Network: protocol.NetworkHosts}, "at least 1"},
		"hosts beside on":              {protocol.WorkspaceWrite, Confinement{Network: protocol.NetworkOn, Hosts: []string{"a"}}, "names hosts as well"},
		"a URL":                        {protocol.WorkspaceWrite, Confinement{Network: protocol.NetworkHosts, Hosts: []string{"https://a"}}, "no name of a host"},
		"a port":                       {protocol.WorkspaceWrite, Confinement{Network: protocol.NetworkHosts, Hosts: []string{"a:80"}}, "no name of a host"},
		"every host":                   {protocol.WorkspaceWrite, Confinement{Network: protocol.NetworkHosts, Hosts: []string{"*"}}, "every host"},
		"a host twice":                 {protocol.WorkspaceWrite, Confinement{Network: protocol.NetworkHosts, Hosts: []string{"a", "a"}}, "twice"},
		"an empty host":                {protocol.WorkspaceWrite, Confinement{Network: protocol.NetworkHosts, Hosts: []string{""}}, "no name of a host"},
		"another word":                 {protocol.WorkspaceWrite, Confinement{Network: "some"}, "use on, off or"},
		"a profile and a mode":         {protocol.WorkspaceWrite, Confinement{Profile: "dev"}, "give one of them"},
		"no profile":                   {protocol.ByProfile, Confinement{}, "needs the name"},
		"one of codex's own":           {protocol.ByProfile, Confinement{Profile: ":workspace"}, "no name of a permission profile"},
		"one of ours":                  {protocol.ByProfile, Confinement{Profile: "fairlead"}, "no name of a permission profile"},
		"hosts beside those of a seed": {protocol.ByProfile, Confinement{Profile: "dev", Network: protocol.NetworkHosts, Hosts: []string{"a"}}, "says itself which hosts"},
	} {
		err := c.c.Check(c.sandbox)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

func seedOf(t *testing.T, config string) *Bundle {
	t.Helper()
	b, err := newBundle([]file{{path: authFile, data: []byte(`{"auth_mode":"apikey","OPENAI_API_KEY":"sk-made-up"}`)}, {path: configFile, data: []byte(config)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSeedsProfileIsThereAndItsHostsAreHeldTo(t *testing.T) {
	const hosts = "[permissions.base.network]\nenabled = true\n[permissions.base.network.domains]\n\"example.com\" = \"allow\"\n[permissions.dev]\nextends = \"base\"\n"
	dev := Confinement{Profile: "dev"}
	for name, c := range map[string]struct {
		seed    string
		c       Confinement
		proxied bool
		says    string
	}{
		"hosts by what it extends":  {hosts, dev, true, ""},
		"no hosts":                  {"[permissions.dev]\nextends = \":workspace\"\n", dev, false, ""},
		"a circle":                  {"[permissions.dev]\nextends = \"dev\"\n", dev, false, ""},
		"the network off":           {hosts, Confinement{Profile: "dev", Network: protocol.NetworkOff}, false, ""},
		"with the proxy":            {"[features]\nnetwork_proxy = true\n" + hosts, dev, true, ""},
		"without the proxy":         {"[features]\nnetwork_proxy = false\n" + hosts, dev, true, "features.network_proxy = false"},
		"with it, and the network":  {"[features]\nnetwork_proxy = true\n", Confinement{Network: protocol.NetworkOn}, false, "features.network_proxy = true"},
		"no such profile":           {"[permissions.other]\n[permissions.a]\n", dev, false, "(it has: a, other)"},
		"no config.toml to name it": {"", dev, false, "(it has: none)"},
	} {
		b := seedOf(t, c.seed)
		if got := c.c.NeedsProxy(b); got != c.proxied {
			t.Errorf("%s: needs the proxy: %v", name, got)
		}
		err := c.c.CheckSeed(b)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	if err := dev.CheckSeed(nil); err == nil {
		t.Error("a session with no seed has a profile of it")
	}
}

func TestWhatATrialPrintsIsReadStrictly(t *testing.T) {
	tr := ConfineTrial{ID: "x", Outside: []string{"/", "/root"}, Confine: Confinement{Read: []string{"/r"}, Write: []string{"/w"}}}
	c, err := tr.ReadConfined("outside 1\nunread 0\noverwrites 0\nunwritten 0\nnet net:[1]\nproxied\ndenied 403\nend\n")
	if err != nil || len(c.Wrong) != 4 || !strings.Contains(c.Wrong[0], "/root") || c.Net != "net:[1]" || !c.Proxied || c.Denied != "403" {
		t.Errorf("%+v, %v", c, err)
	}
	for _, bad := range []string{"", "end of it", "outside 2\nend", "outside -1\nend", "outside x\nend", "hello\nend", "net net:[1]\n"} {
		if c, err := tr.ReadConfined(bad); err == nil {
			t.Errorf("%q: %+v", bad, c)
		}
	}
}

func TestNetworkIsHeldToWhatWasAsked(t *testing.T) {
	const host, own = "net:[1]", "net:[2]"
	for name, c := range map[string]struct {
		sandbox string
		asked   string
		found   Confined
		host    string
		proxied bool
		right   bool
	}{
		"a mode cuts it":              {protocol.WorkspaceWrite, "", Confined{Net: own}, host, false, true},
		"a mode does not cut it":      {protocol.WorkspaceWrite, "", Confined{Net: host}, host, false, false},
		"nobody can tell, nobody ask": {protocol.WorkspaceWrite, "", Confined{}, host, false, true},
		"nobody can tell":             {protocol.WorkspaceWrite, protocol.NetworkOff, Confined{}, host, false, false},
		"off":                         {protocol.ReadOnly, protocol.NetworkOff, Confined{Net: own}, host, false, true},
		"not off":                     {protocol.ReadOnly, protocol.NetworkOff, Confined{Net: host}, host, false, false},
		"on":                          {protocol.ReadOnly, protocol.NetworkOn, Confined{Net: host}, host, false, true},
		"not on":                      {protocol.ReadOnly, protocol.NetworkOn, Confined{Net: own}, host, false, false},
		"hosts":                       {protocol.ReadOnly, protocol.NetworkHosts, Confined{Net: own, Proxied: true, Denied: "403"}, host, true, true},
		"hosts, nothing to ask with":  {protocol.ReadOnly, protocol.NetworkHosts, Confined{Net: own, Proxied: true}, host, true, true},
		"hosts without their proxy":   {protocol.ReadOnly, protocol.NetworkHosts, Confined{Net: own}, host, true, false},
		"hosts, and the host's own":   {protocol.ReadOnly, protocol.NetworkHosts, Confined{Net: host, Proxied: true, Denied: "403"}, host, true, false},
		"hosts, and any other":        {protocol.ReadOnly, protocol.NetworkHosts, Confined{Net: own, Proxied: true, Denied: "502"}, host, true, false},
		"hosts, and no answer":        {protocol.ReadOnly, protocol.NetworkHosts, Confined{Net: own, Proxied: true, Denied: "000"}, host, true, false},
		"a seed's profile":            {protocol.ByProfile, "", Confined{Net: host}, host, false, true},
		"a seed's hosts not held":     {protocol.ByProfile, "", Confined{Net: host}, host, true, false},
	} {
		if wrong := c.found.Network(Confinement{Network: c.asked}, c.sandbox, c.host, c.proxied); (wrong == "") != c.right {
			t.Errorf("%s: %q", name, wrong)
		} else if c.found.Denied == "000" && strings.Contains(wrong, "gets an answer") {
			t.Errorf("%s is told as one: %q", name, wrong)
		}
	}
}
