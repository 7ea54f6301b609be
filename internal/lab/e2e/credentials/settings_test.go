package credentials

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
)

// TestASeedsSettingsReachItsSessionsAndNobodyElse: a seed that consists only of
// a settings file gives a session its model. Its secrets are only in the
// session's config.toml, even if a command printed them.
func TestASeedsSettingsReachItsSessionsAndNobodyElse(t *testing.T) {
	const key, mcp = "marked-provider-8e21d7", "marked-mcp-5b0c94"
	file := filepath.Join(t.TempDir(), "models.yaml")
	settings := fmt.Sprintf(`model: gpt-5.5
provider: {base_url: %q, bearer_token: %s}
mcp_servers:
  search: {url: "http://127.0.0.1:9/mcp", bearer_token: %s, enabled: false}
`, e2e.Lab.Model.BaseURL(), key, mcp)
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	watch := lab.WatchProcesses(key)
	said := e2e.OK(t, "seed", "import", "models", "--settings", file) + e2e.OK(t, "seed", "show", "models") + e2e.OK(t, "seed", "show", "models", "-o", "json")
	if strings.Contains(said, "marked-") || !strings.Contains(said, "settings.yaml") || !strings.Contains(said, "provider") {
		t.Errorf("ctl says %s", said)
	}
	e2e.Session(t, "settings", "--seed", "models", "--sandbox", "danger-full-access")
	home := filepath.Join(e2e.Root, "sessions", "settings", "codex-home")
	v := e2e.Turn(t, "settings", "read your credential in "+shellQuote(home))
	if v.Status != "completed" || strings.Contains(v.FinalText, "marked-") || strings.Count(v.FinalText, "[redacted]") < 2 {
		t.Errorf("turn is %+v", v)
	}
	sum := sha256.Sum256([]byte(key))
	bearers := 0
	for _, r := range e2e.Lab.Model.Requests() {
		if r.TokenSHA256 == hex.EncodeToString(sum[:]) {
			bearers++
		}
	}
	if bearers == 0 {
		t.Error("the model was not asked with the provider's key")
	}
	for _, e := range e2e.Transcript(t, "settings") {
		if line, _ := json.Marshal(e); strings.Contains(string(line), "marked-") {
			t.Errorf("a secret stands in the transcript: %s", line)
		}
	}
	e2e.OK(t, "session", "close", "settings")
	for _, secret := range []string{key, mcp} {
		found, files, _, err := lab.FindSecret(secret, e2e.Lab.State, filepath.Join(e2e.Root, "sessions", "settings"))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if len(found) > 0 || files < 5 {
			t.Errorf("a secret stands in %v (%d files read)", found, files)
		}
	}
	if seen, samples := watch.Stop(); len(seen) > 0 || samples == 0 {
		t.Errorf("a secret was seen in %v (%d samples)", seen, samples)
	}
}
