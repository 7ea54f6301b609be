package lab

import (
	"context"
	"fmt"
	"os/exec"
)

// WriteKey creates a new private key file.
func WriteKey(ctx context.Context, path string) error {
	out, err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ssh-keygen: %w: %s", err, out)
	}
	return nil
}
