package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
)

// A plain is codex at the end of `ssh host codex app-server`, as anybody would
// start it by hand.
type plain struct {
	cmd *exec.Cmd
	io.Reader
	io.WriteCloser
}

// Close closes standard input, which makes codex exit.
func (p *plain) Close() error {
	err := p.WriteCloser.Close()
	ended := make(chan error, 1)
	go func() { ended <- p.cmd.Wait() }()
	select {
	case e := <-ended:
		return errors.Join(err, e)
	case <-time.After(10 * time.Second):
		return errors.Join(err, p.cmd.Process.Kill(), <-ended)
	}
}

// ssh returns the command line of OpenSSH's client for the bench's host.
func (b *setup) ssh(ctx context.Context, remote string) (*exec.Cmd, error) {
	known := filepath.Join(b.lab.Dir, "known_hosts")
	spec := b.host.Spec()
	line := fmt.Sprintf("[%s]:%d %s\n", spec.Address, spec.Port, b.host.HostKey())
	if err := os.WriteFile(known, []byte(line), 0o600); err != nil {
		return nil, err
	}
	return exec.CommandContext(ctx, "ssh", "-F", "none", "-T", "-i", b.host.Identity(), "-o", "IdentitiesOnly=yes", "-o", "UserKnownHostsFile="+known,
		"-p", fmt.Sprint(spec.Port), b.host.User()+"@"+spec.Address, remote), nil
}

// denying is a permission profile that hides a credential from the agent, as in
// Fairlead's sessions. It costs codex most of a second when a thread starts
// (measured with 0.169.0).
const denying = `
[permissions.denying]
extends = ":workspace"
[permissions.denying.filesystem]
%q = "deny"
`

func (b *setup) plainServer(ctx context.Context, home string) (*plain, error) {
	tmp := home + "-tmp"
	for _, dir := range []string{home, tmp, home + "-work"} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	file := filepath.Join(home, "config.toml")
	config := "default_permissions = \"denying\"\n" + scriptedmodel.ConfigTOML(b.lab.Model.BaseURL(), b.lab.Token) + fmt.Sprintf(denying, file)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	remote := fmt.Sprintf("CODEX_HOME=%s TMPDIR=%s exec %s app-server", quote(home), quote(tmp), quote(b.codex))
	cmd, err := b.ssh(ctx, remote)
	if err != nil {
		return nil, err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &plain{cmd, out, in}, nil
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
