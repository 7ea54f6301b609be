package systemd

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/realparts"
)

// installed is the program that the units start.
const installed = "/usr/local/bin/fairlead-worker"

// analyze runs systemd-analyze, which reads units without a running systemd.
func analyze(t *testing.T, args ...string) (string, error) {
	t.Helper()
	realparts.NotShort(t)
	cmd := exec.CommandContext(t.Context(), "systemd-analyze", args...)
	cmd.Env = append(os.Environ(), "SYSTEMD_COLORS=0", "SYSTEMD_EMOJI=0")
	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		t.Fatalf("%v: run `make tools`", err)
	}
	return string(out), err
}

// services are the names of the units of services.
func services(t *testing.T) []string {
	t.Helper()
	names, err := fs.Glob(Units, "*.service")
	if err != nil || len(names) != 2 {
		t.Fatalf("%v (%v)", names, err)
	}
	return names
}

func text(t *testing.T, name string) string {
	t.Helper()
	b, err := fs.ReadFile(Units, name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestSystemdFindsNoMistakeInTheUnits(t *testing.T) {
	dir := t.TempDir()
	for _, name := range services(t) {
		unit := text(t, name)
		if strings.Count(unit, installed+" ") != 1 {
			t.Fatalf("%s does not start %s once", name, installed)
		}
		// systemd looks whether the program is there.
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(strings.Replace(unit, installed, realparts.Worker(t), 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := analyze(t, "verify", "--man=no", file); err != nil || strings.Contains(out, name) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	bad := filepath.Join(dir, "bad.service")
	if err := os.WriteFile(bad, []byte("[Service]\nExecStart=/nonexistent/program\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := analyze(t, "verify", "--man=no", bad); err == nil {
		t.Errorf("a bad unit is good:\n%s", out)
	}
}

// The exposure of a unit without any protection is 9.6.
func TestTheExposureOfEachServiceIsLow(t *testing.T) {
	for _, name := range services(t) {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(text(t, name)), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := analyze(t, "security", "--offline=true", "--threshold=30", file); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		if out, err := analyze(t, "security", "--offline=true", "--threshold=1", file); err == nil {
			t.Errorf("%s: the threshold decides nothing:\n%s", name, out)
		}
	}
}

var (
	credential = regexp.MustCompile(`(?m)^LoadCredential=([^:\n]+):/etc/fairlead/([^\n]+)$`)
	example    = regexp.MustCompile("(?s)```yaml\n(.*?)```")
)

// examples are the configs of the page: the worker's, and the API's, which takes the place of
// some lines of it.
func examples(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile(realparts.Path(t, "docs", "how-to", "install-on-machines.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := example.FindAllStringSubmatch(string(page), -1)
	if len(found) != 2 {
		t.Fatalf("the page has %d configs", len(found))
	}
	var kept []string
	for line := range strings.Lines(found[0][1]) {
		if !strings.HasPrefix(line, "api:") && !strings.HasPrefix(line, "metrics:") {
			kept = append(kept, line)
		}
	}
	return map[string]string{"fairlead-worker.service": found[0][1], "fairlead-api.service": strings.Join(kept, "") + found[1][1]}
}

// acl is an access control list (acl(5), system.posix_acl_access) by which root and a user may
// read, and nobody else.
func acl(uid uint32) []byte {
	list := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range [][3]uint32{{0x01, 4, ^uint32(0)}, {0x02, 4, uid}, {0x04, 0, ^uint32(0)}, {0x10, 4, ^uint32(0)}, {0x20, 0, ^uint32(0)}} {
		list = binary.LittleEndian.AppendUint16(list, uint16(e[0]))
		list = binary.LittleEndian.AppendUint16(list, uint16(e[1]))
		list = binary.LittleEndian.AppendUint32(list, e[2])
	}
	return list
}

// The worker takes the configs of the page with the files that the units load, given to another
// user in the two ways of systemd: owned by that user, and by an access control list.
func TestTheConfigsOfThePageWorkWithTheCredentialsOfTheUnits(t *testing.T) {
	realparts.NotShort(t)
	if os.Getuid() != 0 {
		t.Fatal("this test needs a second user: run it as root")
	}
	const service = 61000
	home, err := os.MkdirTemp("/var/tmp", "fairlead-systemd-") // others may enter it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	worker := filepath.Join(home, "fairlead-worker")
	program, err := os.ReadFile(realparts.Worker(t))
	if err != nil {
		t.Fatal(err)
	}
	codex := filepath.Join(home, "codex")
	access := filepath.Join(home, "access.yaml")
	err = errors.Join(os.Chmod(home, 0o755), os.WriteFile(worker, program, 0o755), os.MkdirAll(filepath.Join(codex, "bin"), 0o755),
		os.WriteFile(filepath.Join(codex, "bin", "codex"), nil, 0o755))
	if err != nil {
		t.Fatal(err)
	}
	secrets := makeSecrets(t, home)
	public, err := os.ReadFile(filepath.Join(secrets, "worker.pub"))
	if err != nil {
		t.Fatal(err)
	}
	rules := "people: []\nworkers: [" + strings.TrimSpace(string(public)) + "]\nbindings: [{name: look, roles: [viewer], to: [everybody]}]\n"
	if err := os.WriteFile(access, []byte(rules), 0o644); err != nil {
		t.Fatal(err)
	}
	for unit, config := range examples(t) {
		config = strings.NewReplacer("/usr/local/lib/fairlead/codex", codex, "/etc/fairlead/access.yaml", access).Replace(config)
		for _, way := range waysOfSystemd(t, home) {
			given, err := os.MkdirTemp(home, "credentials-")
			if err != nil {
				t.Fatal(err)
			}
			give := func(name string, content []byte) error {
				file := filepath.Join(given, name)
				if way == "owner" {
					return errors.Join(os.WriteFile(file, content, 0o400), os.Chown(file, service, service))
				}
				return errors.Join(os.WriteFile(file, content, 0o400), syscall.Setxattr(file, "system.posix_acl_access", acl(service), 0))
			}
			main := ""
			for _, m := range credential.FindAllStringSubmatch(text(t, unit), -1) {
				if m[1] != m[2] {
					t.Errorf("%s: %s is called %s", unit, m[2], m[1])
				}
				content := []byte(config)
				if strings.HasSuffix(m[1], ".yaml") {
					main = m[1]
				} else if content, err = os.ReadFile(filepath.Join(secrets, m[1])); err != nil {
					t.Fatal(err)
				}
				if err := give(m[1], content); err != nil {
					t.Fatal(err)
				}
			}
			if !strings.Contains(text(t, unit), "--config ${CREDENTIALS_DIRECTORY}/"+main) {
				t.Errorf("%s does not start with its config, %s", unit, main)
			}
			if err := os.Chmod(given, 0o755); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), worker, "--config", filepath.Join(given, main), "--check-config")
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: service, Gid: service}}
			cmd.Dir, cmd.Env = "/", []string{"HOME=/nonexistent"}
			if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), " is right") {
				t.Errorf("%s, by %s: %v\n%s", unit, way, err, out)
			}
		}
	}
}

// waysOfSystemd are the ways in which files can be given to a user on the disk of a folder.
func waysOfSystemd(t *testing.T, dir string) []string {
	t.Helper()
	probe := filepath.Join(dir, "probe")
	if err := os.WriteFile(probe, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	switch err := syscall.Setxattr(probe, "system.posix_acl_access", acl(0), 0); {
	case errors.Is(err, syscall.ENOTSUP):
		t.Logf("the disk of %s has no access control lists: only files of the user's own are tried", dir)
		return []string{"owner"}
	case err != nil:
		t.Fatal(err)
	}
	return []string{"owner", "list"}
}

// makeSecrets runs the commands of the page that make keys, but for age-keygen, which the
// machine may lack, and makes what the API shows.
func makeSecrets(t *testing.T, home string) (dir string) {
	t.Helper()
	page, err := os.ReadFile(realparts.Path(t, "docs", "how-to", "install-on-machines.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, script, found := strings.Cut(string(page), "```sh\numask 077\n")
	script, _, closed := strings.Cut(script, "```")
	if !found || !closed {
		t.Fatal("the page does not make keys")
	}
	const age = "age-keygen -o /etc/fairlead/store.identity\n"
	if strings.Count(script, age) != 1 {
		t.Fatal("the page does not make an identity")
	}
	dir = filepath.Join(home, "etc")
	script = strings.ReplaceAll(strings.Replace(script, age, "", 1), "/etc/fairlead", dir)
	if out, err := exec.CommandContext(t.Context(), "sh", "-euc", script).CombinedOutput(); err != nil {
		t.Fatalf("the page's commands: %v\n%s", err, out)
	}
	for _, key := range []string{"payload.key", "workers.key"} {
		file := filepath.Join(dir, key)
		if err := os.Chmod(file, 0o600); err != nil {
			t.Fatal(err)
		}
		if keys, err := payload.LoadKeys(file); err != nil || len(keys) != 1 {
			t.Errorf("%s: %v, %v", key, keys, err)
		}
	}
	for _, name := range []string{"store.identity", "api.pem", "api.key", "api.token"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
