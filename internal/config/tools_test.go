package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The secret of a webhook is a file that only the worker may read, and that commands of
// sessions must not.
func TestWebhooksOfToolsAreChecked(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "tickets.secret")
	if err := os.WriteFile(name, []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	read := func(text string) (*Config, error) { return Parse(filepath.Join(dir, "worker.yaml"), []byte(text)) }
	c, err := read("tools: {webhooks: [{url: 'https://tools.example.com/fairlead/', secret_file: tickets.secret}]}\ninstructions: ours.md\n")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(c.Private(), name) || c.Instructions != filepath.Join(dir, "ours.md") {
		t.Errorf("private are %v, the instructions are %s", c.Private(), c.Instructions)
	}
	said := c.CheckFiles().Error()
	if strings.Contains(said, "tools.webhooks") || !strings.Contains(said, "instructions") {
		t.Errorf("the files are wrong: %s", said)
	}
	if err := os.WriteFile(name, []byte("hunter2hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if said := c.CheckFiles().Error(); !strings.Contains(said, "tools.webhooks") || strings.Contains(said, "hunter2") {
		t.Errorf("a file without a secret: %s", said)
	}
	for text, says := range map[string]string{
		"{url: 'http://tools.example.com/a', secret_file: s}":   "want https",
		"{url: 'https://tools.example.com', secret_file: s}":    "no path",
		"{url: 'https://tools.example.com/?a', secret_file: s}": "query",
		"{url: 'https://tools.example.com/'}":                   "no secret_file",
	} {
		if _, err := read("tools: {webhooks: [" + text + "]}\n"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// What a team's workers may be asked for is named, and whether it is encrypted is said.
func TestQueuesOfToolsAreChecked(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "tickets.key")
	if err := os.WriteFile(name, []byte("team-1:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	read := func(text string) (*Config, error) {
		return Parse(filepath.Join(dir, "worker.yaml"), []byte("tools: {activities: ["+text+"]}\n"))
	}
	c, err := read("{queue: tickets, types: [Lookup], key_file: tickets.key}, {queue: open, types: [Ping], plain: true}")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(c.Private(), name) {
		t.Errorf("private are %v", c.Private())
	}
	files := func() string {
		if err := c.CheckFiles(); err != nil {
			return err.Error()
		}
		return ""
	}
	if said := files(); strings.Contains(said, "tools.activities") {
		t.Errorf("the files are wrong: %s", said)
	}
	if err := os.WriteFile(name, []byte("team-1:hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if said := files(); !strings.Contains(said, "tools.activities") || strings.Contains(said, "hunter2") {
		t.Errorf("a file without a key: %s", said)
	}
	if err := os.Chmod(name, 0o644); err != nil {
		t.Fatal(err)
	}
	if said := files(); !strings.Contains(said, "tools.activities") {
		t.Errorf("a key that others may read: %s", said)
	}
	for text, says := range map[string]string{
		"{queue: fairlead-north, types: [Exec], plain: true}":                            "Fairlead's own workers",
		"{types: [Exec], plain: true}":                                                   "queue",
		"{queue: q, plain: true}":                                                        "no types",
		"{queue: q, types: ['a b'], plain: true}":                                        "visible ones",
		"{queue: q, types: [A]}":                                                         "no key_file",
		"{queue: q, types: [A], plain: true, key_file: k}":                               "key_file and plain",
		"{queue: q, types: [A], plain: true}, {queue: q, types: [B], key_file: tickets}": "there twice",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
