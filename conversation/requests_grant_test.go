package conversation

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
)

const askedForAll = `{"network":{"enabled":true},"fileSystem":{"read":["/srv/data"],"write":["/srv/out","/srv/more/"],
	"entries":[{"access":"read","path":{"type":"path","path":"/srv/data"}},{"access":"write","path":{"type":"special","value":{"kind":"project_roots","subpath":"x"}}}]}}`

func TestAGrantIsAPartOfWhatWasAsked(t *testing.T) {
	denied := `{"fileSystem":{"globScanMaxDepth":3,"entries":[{"access":"write","path":{"type":"path","path":"/srv"}},{"access":"deny","path":{"type":"glob_pattern","pattern":"/srv/**/.env"}}]}}`
	for name, try := range map[string]struct {
		asked, grant, wrong string
	}{
		"all":                         {askedForAll, askedForAll, ""},
		"the network":                 {askedForAll, `{"network":{"enabled":true}}`, ""},
		"a file":                      {askedForAll, `{"fileSystem":{"read":["/srv/data"]}}`, ""},
		"below a folder":              {askedForAll, `{"fileSystem":{"write":["/srv/out/a/b"]}}`, ""},
		"below one with a slash":      {askedForAll, `{"fileSystem":{"write":["/srv/more/a"]}}`, ""},
		"to read what may be written": {askedForAll, `{"fileSystem":{"read":["/srv/out"]}}`, ""},
		"an entry for a path":         {askedForAll, `{"fileSystem":{"entries":[{"access":"write","path":{"type":"path","path":"/srv/out"}}]}}`, ""},
		"a place":                     {askedForAll, `{"fileSystem":{"entries":[{"access":"read","path":{"type":"special","value":{"subpath":"x","kind":"project_roots"}}}]}}`, ""},
		"with what is denied":         {denied, `{"fileSystem":{"globScanMaxDepth":3,"write":["/srv/a"],"entries":[{"access":"none","path":{"type":"glob_pattern","pattern":"/srv/**/.env"}}]}}`, ""},

		"nothing":                      {askedForAll, `{}`, "gives nothing"},
		"a network switched off":       {askedForAll, `{"network":{"enabled":false}}`, "gives nothing"},
		"only denied":                  {denied, `{"fileSystem":{"globScanMaxDepth":3,"entries":[{"access":"deny","path":{"type":"glob_pattern","pattern":"/srv/**/.env"}}]}}`, "gives nothing"},
		"the network unasked":          {`{"fileSystem":{"read":["/a"]}}`, `{"network":{"enabled":true}}`, "network"},
		"another folder":               {askedForAll, `{"fileSystem":{"read":["/etc"]}}`, "/etc"},
		"the folder above":             {askedForAll, `{"fileSystem":{"write":["/srv"]}}`, "/srv"},
		"a folder with such a name":    {askedForAll, `{"fileSystem":{"write":["/srv/outer"]}}`, "/srv/outer"},
		"to write what may be read":    {askedForAll, `{"fileSystem":{"write":["/srv/data"]}}`, "/srv/data"},
		"out of the folder again":      {askedForAll, `{"fileSystem":{"write":["/srv/out/../../etc"]}}`, ".."},
		"a relative path":              {askedForAll, `{"fileSystem":{"write":["srv/out"]}}`, "srv/out"},
		"another place":                {askedForAll, `{"fileSystem":{"entries":[{"access":"write","path":{"type":"special","value":{"kind":"root"}}}]}}`, "write root"},
		"a pattern":                    {askedForAll, `{"fileSystem":{"entries":[{"access":"read","path":{"type":"glob_pattern","pattern":"/srv/data/*"}}]}}`, "/srv/data/*"},
		"an access nobody knows":       {askedForAll, `{"fileSystem":{"entries":[{"access":"own","path":{"type":"path","path":"/srv/out"}}]}}`, "own"},
		"without what is denied":       {denied, `{"fileSystem":{"globScanMaxDepth":3,"write":["/srv/a"]}}`, "stay denied"},
		"less deep":                    {denied, `{"fileSystem":{"globScanMaxDepth":1,"write":["/srv/a"],"entries":[{"access":"deny","path":{"type":"glob_pattern","pattern":"/srv/**/.env"}}]}}`, "another globScanMaxDepth than codex asks for"},
		"a member nobody knows":        {askedForAll, `{"network":{"enabled":true},"devices":["kvm"]}`, "devices"},
		"a member nobody knows, below": {askedForAll, `{"network":{"enabled":true,"hosts":["a"]}}`, "hosts"},
		"no object":                    {askedForAll, `[]`, "shape"},
		"two objects":                  {askedForAll, `{"network":{"enabled":true}} {}`, "there is more after the permissions"},
		"asked for what nobody knows":  {`{"network":{"enabled":true},"devices":[]}`, `{"network":{"enabled":true}}`, "compared"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Within(json.RawMessage(try.grant), json.RawMessage(try.asked))
			var wrong *GrantError
			switch {
			case try.wrong == "" && err != nil:
				t.Error(err)
			case try.wrong != "" && (!errors.As(err, &wrong) || !strings.Contains(err.Error(), try.wrong)):
				t.Errorf("%v, want %q", err, try.wrong)
			}
		})
	}
}

func TestAPartIsPutIntoCodexsShape(t *testing.T) {
	grant, err := Part{Network: true, Read: []string{"/srv/data/"}, Write: []string{"/srv/out/a"}}.Of(json.RawMessage(askedForAll))
	if want := `{"network":{"enabled":true},"fileSystem":{"read":["/srv/data"],"write":["/srv/out/a"]}}`; err != nil || string(grant) != want {
		t.Errorf("%s, %v", grant, err)
	}
	if _, err := (Part{Write: []string{"/etc"}}).Of(json.RawMessage(askedForAll)); err == nil {
		t.Error("a folder is given that nobody asked for")
	}
	denied := json.RawMessage(`{"fileSystem":{"read":["/srv"],"entries":[{"access":"deny","path":{"type":"path","path":"/srv/key"}}]}}`)
	grant, err = Part{Read: []string{"/srv/a"}}.Of(denied)
	if want := `{"fileSystem":{"read":["/srv/a"],"entries":[{"access":"deny","path":{"type":"path","path":"/srv/key"}}]}}`; err != nil || string(grant) != want {
		t.Errorf("%s, %v", grant, err)
	}
}

func TestPermissionsInWords(t *testing.T) {
	want := []string{"use the network", "read /srv/data", "write /srv/out", "write /srv/more/", "write project_roots x"}
	if got := PermissionWords(json.RawMessage(askedForAll)); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := PermissionWords(json.RawMessage(`{"devices":1}`)); !slices.Equal(got, []string{`{"devices":1}`}) {
		t.Errorf("%q", got)
	}
}
