package seeds

import (
	"strings"
	"testing"
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
		"nothing asked":                {workspaceWrite, Confinement{}, ""},
		"full access, network on":      {fullAccess, Confinement{Network: NetworkOn}, ""},
		"all of it":                    {readOnly, Confinement{Read: []string{"/a"}, Write: []string{"/b c"}, Network: NetworkHosts, Hosts: []string{"*.example.com", "10.0.0.1", "fe80::1", "localhost"}}, ""},
		"a profile":                    {ByProfile, Confinement{Profile: "dev", Write: []string{"/b"}, Network: NetworkOff}, ""},
		"full access with a path":      {fullAccess, Confinement{Read: []string{"/a"}}, "confines nothing"},
		"full access without network":  {fullAccess, Confinement{Network: NetworkOff}, "confines nothing"},
		"full access to some hosts":    {fullAccess, Confinement{Network: NetworkHosts, Hosts: []string{"a"}}, "confines nothing"},
		"a relative path":              {readOnly, Confinement{Read: []string{"a"}}, "not a clean absolute path"},
		"a path that climbs":           {readOnly, Confinement{Read: []string{"/a/../b"}}, "not a clean absolute path"},
		"a wildcard":                   {readOnly, Confinement{Write: []string{"/a/*"}}, "wildcards"},
		"two lines":                    {readOnly, Confinement{Write: []string{"/a\n/b"}}, "cannot take"},
		"no UTF-8":                     {readOnly, Confinement{Write: []string{"/\xff"}}, "cannot take"},
		"all of the host":              {workspaceWrite, Confinement{Write: []string{"/"}}, "leaves nothing confined"},
		"one path for both":            {workspaceWrite, Confinement{Read: []string{"/a"}, Write: []string{"/a"}}, "given twice"},
		"too many hosts":               {workspaceWrite, Confinement{Network: NetworkHosts, Hosts: many}, "at most 64"},
		"no hosts":                     {workspaceWrite, Confinement{Network: NetworkHosts}, "at least 1"},
		"hosts beside on":              {workspaceWrite, Confinement{Network: NetworkOn, Hosts: []string{"a"}}, "names hosts as well"},
		"a URL":                        {workspaceWrite, Confinement{Network: NetworkHosts, Hosts: []string{"https://a"}}, "no name of a host"},
		"a port":                       {workspaceWrite, Confinement{Network: NetworkHosts, Hosts: []string{"a:80"}}, "no name of a host"},
		"every host":                   {workspaceWrite, Confinement{Network: NetworkHosts, Hosts: []string{"*"}}, "every host"},
		"a host twice":                 {workspaceWrite, Confinement{Network: NetworkHosts, Hosts: []string{"a", "a"}}, "twice"},
		"an empty host":                {workspaceWrite, Confinement{Network: NetworkHosts, Hosts: []string{""}}, "no name of a host"},
		"another word":                 {workspaceWrite, Confinement{Network: "some"}, "none of on, off"},
		"a profile and a mode":         {workspaceWrite, Confinement{Profile: "dev"}, "give one of them"},
		"no profile":                   {ByProfile, Confinement{}, "needs the name"},
		"one of codex's own":           {ByProfile, Confinement{Profile: ":workspace"}, "no name of a permission profile"},
		"one of ours":                  {ByProfile, Confinement{Profile: "fairlead"}, "no name of a permission profile"},
		"hosts beside those of a seed": {ByProfile, Confinement{Profile: "dev", Network: NetworkHosts, Hosts: []string{"a"}}, "says itself which hosts"},
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
		"the network off":           {hosts, Confinement{Profile: "dev", Network: NetworkOff}, false, ""},
		"with the proxy":            {"[features]\nnetwork_proxy = true\n" + hosts, dev, true, ""},
		"without the proxy":         {"[features]\nnetwork_proxy = false\n" + hosts, dev, true, "features.network_proxy = false"},
		"with it, and the network":  {"[features]\nnetwork_proxy = true\n", Confinement{Network: NetworkOn}, false, "features.network_proxy = true"},
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
		"a mode cuts it":              {workspaceWrite, "", Confined{Net: own}, host, false, true},
		"a mode does not cut it":      {workspaceWrite, "", Confined{Net: host}, host, false, false},
		"nobody can tell, nobody ask": {workspaceWrite, "", Confined{}, host, false, true},
		"nobody can tell":             {workspaceWrite, NetworkOff, Confined{}, host, false, false},
		"off":                         {readOnly, NetworkOff, Confined{Net: own}, host, false, true},
		"not off":                     {readOnly, NetworkOff, Confined{Net: host}, host, false, false},
		"on":                          {readOnly, NetworkOn, Confined{Net: host}, host, false, true},
		"not on":                      {readOnly, NetworkOn, Confined{Net: own}, host, false, false},
		"hosts":                       {readOnly, NetworkHosts, Confined{Net: own, Proxied: true, Denied: "403"}, host, true, true},
		"hosts, nothing to ask with":  {readOnly, NetworkHosts, Confined{Net: own, Proxied: true}, host, true, true},
		"hosts without their proxy":   {readOnly, NetworkHosts, Confined{Net: own}, host, true, false},
		"hosts, and the host's own":   {readOnly, NetworkHosts, Confined{Net: host, Proxied: true, Denied: "403"}, host, true, false},
		"hosts, and any other":        {readOnly, NetworkHosts, Confined{Net: own, Proxied: true, Denied: "502"}, host, true, false},
		"hosts, and no answer":        {readOnly, NetworkHosts, Confined{Net: own, Proxied: true, Denied: "000"}, host, true, false},
		"a seed's profile":            {ByProfile, "", Confined{Net: host}, host, false, true},
		"a seed's hosts not held":     {ByProfile, "", Confined{Net: host}, host, true, false},
	} {
		if wrong := c.found.Network(Confinement{Network: c.asked}, c.sandbox, c.host, c.proxied); (wrong == "") != c.right {
			t.Errorf("%s: %q", name, wrong)
		} else if c.found.Denied == "000" && strings.Contains(wrong, "gets an answer") {
			t.Errorf("%s is told as one: %q", name, wrong)
		}
	}
}
