package activities

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/activities/codexpkg"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/realparts"
)

// The host's uname names another processor or operating system than this machine has. So the
// package for that one arrives there and is verified, and only its first start fails.
func TestAHostOfAnotherArchitectureIsBroughtThePackageOfItsOwn(t *testing.T) {
	realparts.NotShort(t)
	cpu, platform := "aarch64", "linux-arm64"
	if strings.HasPrefix(machineOf(t), "aarch64") || machineOf(t) == "arm64" {
		cpu, platform = "x86_64", "linux-x64"
	}
	t.Run("another processor", func(t *testing.T) { testPlatform(t, "Linux", cpu, platform, cpu+"-unknown-linux-musl") })
	t.Run("macOS", func(t *testing.T) { testPlatform(t, "Darwin", "arm64", "darwin-arm64", "aarch64-apple-darwin") })
}

func testPlatform(t *testing.T, system, cpu, platform, target string) {
	pkg := realparts.CodexPlatform(t, platform)
	bin := t.TempDir()
	if err := os.Chmod(filepath.Dir(bin), 0o755); err != nil { // for the host's user
		t.Fatal(err)
	}
	uname := fmt.Sprintf("#!/bin/sh\ncase $1 in -s) echo %s ;; -m) echo %s ;; *) exec /usr/bin/uname \"$@\" ;; esac\n", system, cpu)
	if err := os.WriteFile(filepath.Join(bin, "uname"), []byte(uname), 0o755); err != nil {
		t.Fatal(err)
	}
	b := newBed(t, hosttest.StartSSHD(t, hosttest.Options{NewUser: os.Getuid() == 0,
		Config: []string{"SetEnv PATH=" + bin + ":/usr/local/bin:/usr/bin:/bin"}}).Spec())
	if got := strings.Join(strings.Fields(b.sh("uname -s; uname -m")), " "); got != system+" "+cpu {
		t.Fatalf("the host says that it is %q", got)
	}

	_, err := b.provision()
	if app := appError(t, err); app.Type() != protocol.ErrTypeCodexMissing || !strings.Contains(app.Message(), cpu) {
		t.Errorf("with a package for this machine only: %v", app)
	}

	deps := b.set.site.Deps
	deps.Codex = codexpkg.NewCodexSource(codexDir(t), pkg)
	b.set = New(deps)
	tree, err := b.set.site.Codex.Tree(t.Context(), system, cpu)
	if err != nil || tree.Target != target {
		t.Fatalf("the package is %+v, %v", tree, err)
	}
	_, err = b.provision()
	// codex is started only after all its files were verified on the host. So this error shows
	// that the package arrived whole.
	if app := appError(t, err); app.Type() != protocol.ErrTypeCodexMissing || !strings.Contains(app.Message(), "codex does not run here") {
		t.Errorf("with the package for the host: %v", app)
	}
	if left := strings.TrimSpace(b.sh(`ls -A "$1/codex"`, b.root())); left != "" {
		t.Errorf("a codex that does not run leaves %q", left)
	}
}
