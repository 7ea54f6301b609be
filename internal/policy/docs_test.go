package policy

import (
	"os"
	"strings"
	"testing"
)

// TestPolicyOfTheDocsDecides checks that the policy in the docs is valid and decides as the
// docs say.
func TestPolicyOfTheDocsDecides(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-to/write-a-policy.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "```yaml\nrules:")
	text, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("the page shows no policy")
	}
	p, err := Parse([]byte("rules:" + text))
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Warnings) != 0 {
		t.Errorf("it warns of %q", p.Warnings)
	}
	for request, want := range map[string]Outcome{
		`{"kind":"command","command":"ls -l","cwd":"/w","work":"/w","host":{"name":"web-1"}}`:                                             Accept,
		`{"kind":"command","command":"ls; rm -rf /","cwd":"/w","work":"/w","host":{"name":"web-1"}}`:                                      Ask,
		`{"kind":"command","command":"make","cwd":"/w","work":"/w","host":{"name":"web-1","labels":{"env":"prod"}}}`:                      Decline,
		`{"kind":"file_change","work":"/w","host":{"name":"web-1","labels":{"env":"prod"}},"changes":[{"path":"/w/a","kind":"add"}]}`:     Decline,
		`{"kind":"file_change","work":"/w","host":{"name":"web-1"},"changes":[{"path":"/w/a","kind":"add"}]}`:                             Accept,
		`{"kind":"file_change","work":"/w","host":{"name":"web-1"},"changes":[{"path":"/w/.git/hooks/post-checkout","kind":"add"}]}`:      Ask,
		`{"kind":"command","command":"ls","cwd":"/w","work":"/w","host":{"name":"web-1"},"counts":{"in_turn":50}}`:                        Ask,
		`{"kind":"file_change","work":"/w","host":{"name":"web-1"},"changes":[{"path":"/w/a","kind":"update","moved_to":"/etc/passwd"}]}`: Ask,
	} {
		r, err := ReadRequest([]byte(request))
		if err != nil {
			t.Fatal(err)
		}
		if v := p.Decide(r); v.Outcome != want {
			t.Errorf("%s: %+v, want %s", request, v, want)
		}
	}
}
