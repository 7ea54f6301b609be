package session

import (
	"strings"
	"testing"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
)

// An agent chooses the names of hidden files. In the folder that somebody happens to be in, a shell,
// git or an editor may obey them.
func TestAHiddenFileComesToTheCurrentFolderOnlyIfItIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		asked, files []string
		chosen       bool
		says         string // "" means that it is admitted
	}{
		"nothing hidden":           {[]string{"."}, []string{"README", "src/a.go"}, false, ""},
		"a start file":             {[]string{"."}, []string{"README", ".bashrc"}, false, "write .bashrc to the current folder"},
		"several":                  {[]string{"."}, []string{".envrc", ".git/hooks/post-checkout", ".git/config", ".vimrc"}, false, "write .envrc and 2 more to"},
		"a hook of a folder":       {[]string{"site"}, []string{"site/.git/hooks/post-checkout"}, false, "write site/.git to"},
		"a named file":             {[]string{".env"}, []string{".env"}, false, ""},
		"a named folder":           {[]string{"./.github"}, []string{".github/workflows/ci.yml"}, false, ""},
		"hidden in a named folder": {[]string{".github"}, []string{".github/.envrc"}, false, "write .github/.envrc to"},
		"named elsewhere":          {[]string{".envrc", "src"}, []string{".envrc", "src/.envrc"}, false, "write src/.envrc to"},
		"within itself":            {[]string{".git"}, []string{".git/x/.git/hooks/post-checkout"}, false, "write .git/x/.git to"},
		"a folder on the way":      {[]string{"/srv/.app/site"}, []string{"site/.app/x"}, false, "write site/.app to"},
		"asked for twice":          {[]string{".", ".env"}, []string{".env"}, false, ""},
		"a dot within a name":      {[]string{"."}, []string{"report.v1.md", "src/a.b/c"}, false, ""},
		"an absolute name":         {[]string{"/srv/app/.env"}, []string{".env"}, false, ""},
		"a folder of its own":      {[]string{"."}, []string{".bashrc"}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := folder{path: t.TempDir(), chosen: c.chosen, force: true}.admits(c.asked, c.files)
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || core.ExitCode(err) != 6) {
				t.Errorf("it is %v, exit %d, want %q", err, core.ExitCode(err), c.says)
			}
		})
	}
}
