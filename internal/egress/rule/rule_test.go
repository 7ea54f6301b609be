package rule

import (
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/protocol"
)

func TestAnEgressRuleNamesAHostAndAPort(t *testing.T) {
	for text, want := range map[string]string{
		"github.com:443": "github.com:443", "GitHub.com:443": "github.com:443", "*.example.com:8443": "*.example.com:8443", "mirror:80": "mirror:80",
	} {
		if r, err := Parse(text); err != nil || r.String() != want {
			t.Errorf("%s: %s, %v", text, r, err)
		}
	}
	for _, text := range []string{
		"", "github.com", "github.com:", "github.com:0", "github.com:65536", "github.com:+443", "github.com:0443", ":443", "*:443", "*.:443", "a.*.com:443", "a..b:443",
		"-a.com:443", "a-.com:443", "a b.com:443", "a.com.:443", "https://a.com:443", "10.0.0.1:443", "[::1]:443", "127.1:80", "2130706433:80", "0x7f.0x1:80", "a_b/c:80",
		"a\n.com:443", "ä.com:443", strings.Repeat("a", 64) + ".com:443", strings.Repeat("a.", 130) + "com:443",
	} {
		if r, err := Parse(text); err == nil {
			t.Errorf("%q is read as %s", text, r)
		}
	}
	if _, err := ParseAll(make([]string, Most+1)); err == nil {
		t.Error("any number of rules is taken")
	}
}

func TestAnEgressRuleCoversNoMoreThanItNames(t *testing.T) {
	for _, c := range []struct {
		allowed, asked string
		want           bool
	}{
		{"github.com:443", "github.com:443", true},
		{"github.com:443", "github.com:22", false},
		{"github.com:443", "api.github.com:443", false},
		{"github.com:443", "*.github.com:443", false},
		{"*.github.com:443", "api.github.com:443", true},
		{"*.github.com:443", "a.b.github.com:443", true},
		{"*.github.com:443", "github.com:443", false},
		{"*.github.com:443", "evilgithub.com:443", false},
		{"*.github.com:443", "*.github.com:443", true},
		{"*.github.com:443", "*.api.github.com:443", true},
		{"*.api.github.com:443", "*.github.com:443", false},
	} {
		a, aerr := Parse(c.allowed)
		b, berr := Parse(c.asked)
		if aerr != nil || berr != nil {
			t.Fatal(aerr, berr)
		}
		if a.Covers(b) != c.want {
			t.Errorf("%s covers %s: %t", a, b, !c.want)
		}
		if !b.Below && a.Matches(b.Name, b.Port) != c.want {
			t.Errorf("%s matches %s: %t", a, b, !c.want)
		}
	}
}

func TestEgressThatCommandsCouldNotUseIsRefused(t *testing.T) {
	one := []string{"github.com:443"}
	for _, c := range []struct {
		list                          []string
		credentials, sandbox, network string
		want                          string // of the error; empty: none
	}{
		{nil, "planted", protocol.WorkspaceWrite, "", ""},
		{one, "gateway", protocol.WorkspaceWrite, protocol.NetworkOn, ""},
		{one, "", protocol.ReadOnly, protocol.NetworkOn, ""}, // a default may say gateway
		{one, "gateway", protocol.FullAccess, "", ""},
		{one, "gateway", protocol.ByProfile, "", ""},
		{one, "planted", protocol.WorkspaceWrite, protocol.NetworkOn, "--credentials gateway"},
		{one, "gateway", protocol.WorkspaceWrite, "", "--network on"},
		{one, "gateway", protocol.ByProfile, protocol.NetworkOff, "--network on"},
		{one, "gateway", protocol.WorkspaceWrite, protocol.NetworkHosts, "codex's own proxy"},
		{[]string{"github.com"}, "gateway", protocol.WorkspaceWrite, protocol.NetworkOn, "HOST:PORT"},
	} {
		err := CheckOptions(c.list, c.credentials, c.sandbox, c.network)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
