package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/sshsig"
)

// People have SSH keys of their own, for a stack that takes signed commands only.
type People struct{ dir string }

// NewPeople makes the keys of people and of strangers, and an access file that lists those
// of the people, with bindings. Each has a config of ctl.
func NewPeople(bindings string, people, strangers []string) (p *People, err error) {
	dir, err := os.MkdirTemp("/var/tmp", "fairlead-people-")
	if err != nil {
		return nil, err
	}
	p = &People{dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	var listed strings.Builder
	for _, name := range people {
		key, err := p.add(name)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&listed, "  - {name: %s, keys: [%q]}\n", name, key)
	}
	for _, name := range strangers {
		if _, err := p.add(name); err != nil {
			return nil, err
		}
	}
	worker, err := p.add("worker")
	if err != nil {
		return nil, err
	}
	return p, os.WriteFile(p.in("access.yaml"), fmt.Appendf(nil, "people:\n%sworkers: [%q]\nbindings:\n%s", listed.String(), worker, bindings), 0o600)
}

func (p *People) in(name string) string { return filepath.Join(p.dir, name) }

func (p *People) add(name string) (public string, err error) {
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", p.in(name)).CombinedOutput(); err != nil {
		return "", fmt.Errorf("ssh-keygen: %w: %s", err, out)
	}
	pub, err := os.ReadFile(p.in(name + ".pub"))
	if err != nil {
		return "", err
	}
	return strings.Join(strings.Fields(string(pub))[:2], " "), os.WriteFile(p.ConfigOf(name), []byte(p.signs(name)), 0o600)
}

func (p *People) signs(name string) string {
	return fmt.Sprintf("authority: required\nprincipal: %s\nsign_with: %s\n", name, p.in(name))
}

// ConfigOf returns the path of somebody's config of ctl.
func (p *People) ConfigOf(name string) string { return p.in(name + ".yaml") }

// Stack returns the config of a stack whose ctl is somebody's; see [Options.Config].
func (p *People) Stack(name string) string {
	return fmt.Sprintf("%saccess: %s\nworker_key: %s\n", p.signs(name), p.in("access.yaml"), p.in("worker"))
}

// Sign signs a message to a workflow as somebody.
func (p *People) Sign(name, workflow, message string, args any) (json.RawMessage, error) {
	pem, err := os.ReadFile(p.in(name))
	if err != nil {
		return nil, err
	}
	key, err := sshsig.ParseKey(pem, nil)
	if err != nil {
		return nil, err
	}
	raw, err := command.Marshal(args)
	if err != nil {
		return nil, err
	}
	return command.Sign(key, name, workflow, message, raw, time.Now())
}

// Close removes the keys.
func (p *People) Close() error { return os.RemoveAll(p.dir) }
