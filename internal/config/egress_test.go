package config

import (
	"strings"
	"testing"
)

func TestWhatSessionsMayReachIsChecked(t *testing.T) {
	c, err := Parse("w.yaml", []byte("egress:\n  allow: [GitHub.com:443, '*.example.com:8443']\n  private: [10.1.0.0/16, 'fd00:1::/32']\n"))
	if err != nil {
		t.Fatal(err)
	}
	allow, private, err := c.Egress.Rules()
	if err != nil || len(allow) != 2 || allow[0].String() != "github.com:443" || len(private) != 2 {
		t.Errorf("%v %v %v", allow, private, err)
	}
	for text, want := range map[string]string{
		"{allow: [github.com]}":     "HOST:PORT",
		"{allow: ['*:443']}":        "no name",
		"{allow: ['10.0.0.1:443']}": "it is an address",
		"{private: [10.1.0.0]}":     "no range of addresses",
		"{private: [10.1.2.3/16]}":  "no range of addresses",
	} {
		if _, err := Parse("w.yaml", []byte("egress: "+text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
