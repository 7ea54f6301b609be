package gateways

import (
	"context"
	"errors"
	"testing"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/egress/rule"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestTheOrganisationsDefaultServesOnlySessionsThatTheGatewayCanServe(t *testing.T) {
	key, login := &protocol.SeedRef{Name: "key", Kind: "api_key"}, &protocol.SeedRef{Name: "login", Kind: "chatgpt"}
	for name, c := range map[string]struct {
		organisation, says string
		seed               *protocol.SeedRef
		host               string
		decided            bool
		want               bool
	}{
		"a key":                {organisation: "gateway", seed: key, host: "web-1", want: true},
		"planted":              {organisation: "planted", seed: key, host: "web-1"},
		"the session says it":  {organisation: "gateway", says: "planted", seed: key, host: "web-1"},
		"it was decided":       {organisation: "gateway", seed: key, host: "web-1", decided: true},
		"a ChatGPT login":      {organisation: "gateway", seed: login, host: "web-1"},
		"the worker's machine": {organisation: "gateway", seed: key, host: protocol.LocalHost},
		"no seed":              {organisation: "gateway", host: "web-1"},
	} {
		s := &site.Site{}
		s.Credentials = c.organisation
		s.AskAsks = func(_ context.Context, session string) (protocol.SessionAsks, error) {
			return protocol.SessionAsks{Unsaid: session == "s1" && !c.decided}, nil
		}
		got, err := ByDefault(t.Context(), s, protocol.Claim{Session: "s1", Host: protocol.HostSpec{Name: c.host}}, c.says, c.seed)
		if err != nil || got != c.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	s := &site.Site{}
	s.Credentials = protocol.CredentialsGateway
	s.AskAsks = func(context.Context, string) (protocol.SessionAsks, error) {
		return protocol.SessionAsks{}, errors.New("away")
	}
	if _, err := ByDefault(t.Context(), s, protocol.Claim{Session: "s1", Host: protocol.HostSpec{Name: "web-1"}}, "", key); err == nil {
		t.Error("a session that cannot be asked is decided")
	}
}

func TestOnlyWhatTheWorkersPermitMayBeReached(t *testing.T) {
	allow, err := rule.ParseAll([]string{"github.com:443", "*.example.com:443"})
	if err != nil {
		t.Fatal(err)
	}
	s := site.NewSite(site.Deps{Egress: site.Egress{Allow: allow}})
	for _, c := range []struct {
		asked       []string
		credentials string
		want        string // the kind of the error
	}{
		{nil, "", ""},
		{[]string{"github.com:443", "pkg.example.com:443"}, "gateway", ""},
		{[]string{"github.com:443"}, "planted", protocol.ErrTypeBadInput},
		{[]string{"github.com:443", "example.com:443"}, "gateway", protocol.ErrTypeBounds},
		{[]string{"*.github.com:443"}, "gateway", protocol.ErrTypeBounds},
		{[]string{"github.com"}, "gateway", protocol.ErrTypeBadInput},
	} {
		err := CheckEgress(s, c.asked, c.credentials)
		var typed *kit.TypedError
		if (err == nil) != (c.want == "") || err != nil && (!errors.As(err, &typed) || typed.Kind != c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if err := CheckEgress(site.NewSite(site.Deps{}), []string{"github.com:443"}, "gateway"); err == nil {
		t.Error("workers that say nothing permit something")
	}
}
