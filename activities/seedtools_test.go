package activities

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/teamtool"
	"fairlead.dev/fairlead/seeds"
)

func TestASessionHasTheToolsOfItsSeedBesideItsOwn(t *testing.T) {
	st := newStore(t)
	s := site.NewSite(site.Deps{Store: st, ToolTargets: []teamtool.Target{{URL: "https://a.example/"}}})
	saved := func(settings string) *protocol.SeedRef {
		t.Helper()
		b, err := seeds.PackWith("", []byte("provider: {base_url: \"http://127.0.0.1:9/v1\", bearer_token: marked-provider-0123}\n"+settings))
		if err != nil {
			t.Fatal(err)
		}
		ref, err := seeds.Save(t.Context(), st, "team", 0, b)
		if err != nil {
			t.Fatal(err)
		}
		return &protocol.SeedRef{Name: ref.Name, Blob: ref.Blob, Digest: ref.Digest}
	}
	ref := saved("tools:\n  - {name: lookup, description: d, webhook: \"https://a.example/seed/lookup\"}\n  - {name: page, description: d, webhook: \"https://b.example/page\"}\n")
	given := func(text string) *protocol.ToolsGiven {
		t.Helper()
		g, err := teamtool.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	own := given("tools: [{name: page, description: d, webhook: \"https://a.example/own/page\"}]")
	names := func(ref *protocol.SeedRef, g *protocol.ToolsGiven, begun bool) (all []string) {
		t.Helper()
		tools, err := site.SessionTools(t.Context(), s, "s", ref, g, begun)
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range tools {
			all = append(all, tool.Name+" "+tool.Webhook)
		}
		return all
	}
	want := []string{"lookup https://a.example/seed/lookup", "page https://a.example/own/page"}
	for range 2 { // also from memory
		if got := names(ref, own, false); !slices.Equal(got, want) {
			t.Errorf("the tools are %q, want %q", got, want)
		}
	}
	if got := names(nil, own, false); len(got) != 1 {
		t.Errorf("without a seed: %q", got)
	}

	if err := site.CheckTools(t.Context(), s, "s", ref, own); err != nil {
		t.Errorf("the seed's tool that is not allowed has no place in the session: %v", err)
	}
	err := site.CheckTools(t.Context(), s, "s", ref, nil)
	var typed *kit.TypedError
	if !errors.As(err, &typed) || typed.Kind != protocol.ErrTypeBounds || !strings.Contains(err.Error(), "tool page of seed team") {
		t.Errorf("a tool of the seed that is not allowed: %v", err)
	}

	// A bundle with such tools was stored by a release that knew a tool of ours less.
	broken := saved("tools: [{name: finish, description: d, webhook: \"https://a.example/finish\"}]\n")
	if _, err := site.SessionTools(t.Context(), s, "s", broken, own, false); !errors.As(err, &typed) || typed.Kind != protocol.ErrTypeBadInput || !strings.Contains(err.Error(), "the tools of seed team") {
		t.Errorf("tools that cannot be read, before the thread begins: %v", err)
	}
	if got := names(broken, own, true); !slices.Equal(got, want[1:]) {
		t.Errorf("tools that cannot be read, in a thread: %q", got)
	}
}
