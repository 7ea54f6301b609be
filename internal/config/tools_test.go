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
