package snapshots

import (
	"testing"
)

func TestGitURLs(t *testing.T) {
	for raw, want := range map[string]gitURL{
		"https://example.org/a.git":           {"https://example.org/a.git", false, true},
		"https://u:p@example.org/a.git":       {"https://example.org/a.git", true, true},
		"https://token@example.org/a":         {"https://example.org/a", true, true},
		"https://example.org/a?t=1":           {"https://example.org/a", true, false},
		"ssh://git@example.org:22/a.git":      {"ssh://git@example.org:22/a.git", false, true},
		"ssh://git:pw@example.org/a.git":      {"ssh://git@example.org/a.git", true, true},
		"git@example.org:a/b.git":             {"git@example.org:a/b.git", false, true},
		"example.org:a/b.git":                 {"example.org:a/b.git", false, true},
		"git@[2001:db8::1]:a/b.git":           {"git@[2001:db8::1]:a/b.git", false, true},
		"git@localhost:a.git":                 {"git@localhost:a.git", false, false},
		"git://127.0.0.1/a":                   {"git://127.0.0.1/a", false, false},
		"http://[::1]/a":                      {"http://[::1]/a", false, false},
		"/srv/git/a.git":                      {"/srv/git/a.git", false, false},
		"../a.git":                            {"../a.git", false, false},
		"./odd:name":                          {"./odd:name", false, false},
		"file:///srv/a.git":                   {"file:///srv/a.git", false, false},
		"ext::sh -c 'echo'":                   {"ext::sh -c 'echo'", false, false},
		"https://u:p%zz@example.org/a":        {"https://unreadable", true, false},
		"codecommit::us-east-1://repo":        {"codecommit::us-east-1://repo", false, false},
		"https://user@example.org:8443/a.git": {"https://example.org:8443/a.git", true, true},
	} {
		if got := cleanURL(raw); got != want {
			t.Errorf("%s: %+v, want %+v", raw, got, want)
		}
	}
}
