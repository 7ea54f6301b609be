package signkey

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/lab/touchkey"
	"fairlead.dev/fairlead/internal/sshsig"
)

func TestAnAgentSignsWithTheFIDOKeyThatIsNamed(t *testing.T) {
	k, err := touchkey.New(touchkey.Touched)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "fl-key") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	file, public := filepath.Join(dir, "id_ed25519_sk"), filepath.Join(t.TempDir(), "alone.pub")
	for name, data := range map[string][]byte{file: k.File(), public: []byte(k.Line() + "\n")} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	app := &core.App{}
	defer app.Close()
	now := time.Now()
	t.Setenv("SSH_AUTH_SOCK", "")
	if _, err := Load(t.Context(), app, file, sshsig.Choice{At: now}); err == nil || !strings.Contains(err.Error(), "an ssh-agent must sign") || !strings.Contains(err.Error(), "ssh-add "+file) {
		t.Errorf("without an agent: %v", err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go k.ServeAgent(l)
	t.Setenv("SSH_AUTH_SOCK", l.Addr().String())
	allowed, err := sshsig.ParseAllowed([]byte("alice " + k.Line()))
	if err != nil {
		t.Fatal(err)
	}
	for _, with := range []string{"agent", "agent:" + sshsig.Fingerprint(k.PublicKey()), file, public} {
		signer, err := Load(t.Context(), app, with, sshsig.Choice{At: now})
		if err != nil {
			t.Errorf("%s: %v", with, err)
			continue
		}
		armored, err := sshsig.Sign(signer, sshsig.Namespace, []byte("yes"))
		if err != nil {
			t.Fatal(err)
		}
		if who, err := sshsig.Verify(armored, sshsig.Namespace, []byte("yes"), allowed, now); who != "alice" || err != nil {
			t.Errorf("%s: %q, %v", with, who, err)
		}
	}
}
