package standin

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// Pack builds the program and lays it out in dir as a codex package. A worker
// brings it to hosts if its codex.source, or `ctl up --codex`, names dir.
func Pack(ctx context.Context, repo, dir string) error {
	bin := filepath.Join(dir, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w", "-o", filepath.Join(bin, "codex"), "./internal/lab/standin/cmd/codex")
	cmd.Dir = repo
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the stand-in: %w: %s", err, out)
	}
	cpu := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	about, err := json.Marshal(map[string]any{"version": Version, "target": cpu + "-unknown-linux-musl", "entrypoint": "bin/codex"})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "codex-package.json"), about, 0o644)
}
