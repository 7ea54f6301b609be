// Package authority has the end-to-end tests of a stack whose workers take signed commands
// only.
package authority

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
)

// keys is the folder with the keys of people and of the worker, the access file and a config
// file for each person.
var keys string

// The people of the access file, beside dave, who is revoked. mallory has a key that is not in it, thief
// signs with that key in the name of alice, and nobody signs nothing. The key of rita, an admin, is
// revoked; eve is an admin with certificates of the authority. Only the test of Slack needs nina.
const bindings = `
groups:
  - {name: builders, members: [alice, olaf, dave]}
bindings:
  - {name: root, roles: [admin], to: [root, rita, eve]}
  - {name: everybody looks, roles: [viewer], to: [vera]}
  - {name: builders run, roles: [operator], to: ["group:builders"]}
  - {name: nina decides, roles: [approver], to: [nina]}
  - {name: guests look, roles: [viewer], to: ["group:guests"]}
  - {name: approvers decide, roles: [approver], to: [bob, carol, "group:deciders"], when: 'owner != who'}
revoked: {people: [dave], keys: [%q]}
`

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	dir, err := os.MkdirTemp("/var/tmp", "fairlead-keys-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	keys = dir
	if err := errors.Join(openProvider(), makeKeys()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	login, err := ofPage(`login: .*`, "https://id.example.com", provider.URL, "certificate_key: ca", "certificate_key: "+dir+"/ca")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	notifications, err := openChat(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer chat.Close()
	config := fmt.Sprintf("authority: required\naccess: %[1]s/access.yaml\nworker_key: %[1]s/worker\n", dir) + login + notifications
	return e2e.MainWith(m, config, func() error {
		// Without --config, ctl is root's.
		at := filepath.Join(e2e.Lab.Dir, "config", "fairlead")
		if err := os.MkdirAll(at, 0o700); err != nil {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, "root.yaml"))
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(at, "config.yaml"), data, 0o600)
	})
}

func makeKeys() error {
	var people strings.Builder
	workers, authorities, ca, lost := "", "", "", ""
	people.WriteString("people:\n")
	for _, name := range []string{"root", "alice", "bob", "carol", "olaf", "dave", "vera", "rita", "nina", "mallory", "eve", "authority", "ca", "worker"} {
		file := filepath.Join(keys, name)
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", file).CombinedOutput(); err != nil {
			return fmt.Errorf("ssh-keygen: %w: %s", err, out)
		}
		pub, err := os.ReadFile(file + ".pub")
		if err != nil {
			return err
		}
		line := strings.Join(strings.Fields(string(pub))[:2], " ")
		switch name {
		case "worker":
			workers = fmt.Sprintf("workers: [%q]\n", line)
		case "authority":
			authorities = fmt.Sprintf("  - {key: %q, names: [eve]}\n", line)
		case "ca":
			ca = line
		case "mallory", "eve":
		default:
			if name == "rita" {
				key, _, _, _, err := ssh.ParseAuthorizedKey(pub)
				if err != nil {
					return err
				}
				lost = ssh.FingerprintSHA256(key)
			}
			fmt.Fprintf(&people, "  - {name: %s, keys: [%q]}\n", name, line)
		}
		if err := configOf(name, name); err != nil {
			return err
		}
	}
	if err := configOf("thief", "alice"); err != nil { // mallory's key and alice's name
		return err
	}
	thief := filepath.Join(keys, "thief.yaml")
	data, err := os.ReadFile(thief)
	if err != nil {
		return err
	}
	if err := os.WriteFile(thief, []byte(strings.Replace(string(data), "/thief", "/mallory", 1)), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(keys, "nobody.yaml"), []byte("authority: local\n"), 0o600); err != nil {
		return err
	}
	// What the page on logins says of the access file.
	ofLogins, err := ofPage(`  - \{key:.*`, "ssh-ed25519 AAAA… of ca.pub", ca)
	if err != nil {
		return err
	}
	operators, err := ofPage(`  - \{name: operators.*`)
	if err != nil {
		return err
	}
	return writeAccess(people.String() + workers + "authorities:\n" + authorities + ofLogins +
		strings.Replace(fmt.Sprintf(bindings, lost), "bindings:\n", "bindings:\n"+operators, 1))
}

// writeAccess puts an access file in the place of the one that is there.
func writeAccess(text string) error {
	file := filepath.Join(keys, "access.yaml")
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// configOf writes the config file of ctl for somebody.
func configOf(who, principal string) error {
	text := fmt.Sprintf("authority: required\nprincipal: %s\nsign_with: %s\n", principal, filepath.Join(keys, who))
	return os.WriteFile(filepath.Join(keys, who+".yaml"), []byte(text), 0o600)
}

// as runs ctl as somebody.
func as(t *testing.T, who string, args ...string) lab.Result {
	t.Helper()
	return e2e.Lab.Ctl(e2e.Within(t), nil, ofPerson(who, args...)...)
}

// mustDo runs ctl as somebody, which must exit 0.
func mustDo(t *testing.T, who string, args ...string) string {
	t.Helper()
	r := as(t, who, args...)
	if r.Code != 0 {
		t.Fatalf("%s: %v", who, r)
	}
	return r.Stdout
}

// mustNot runs ctl as somebody, which must be refused for lack of a right, and say so.
func mustNot(t *testing.T, who, says string, args ...string) {
	t.Helper()
	r := as(t, who, append([]string{"-o", "json"}, args...)...)
	if r.Code != 6 || !strings.Contains(r.Stdout, `"kind":"forbidden"`) || !strings.Contains(r.Stdout, says) {
		t.Errorf("%s: %v; want it forbidden, because %s", who, r, says)
	}
}
