package fleet

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

type importedHost struct {
	Name, Outcome, Zone string
	Changes             []string
}

// imports runs an import and returns the outcome for each host.
func imports(t *testing.T, args ...string) string {
	t.Helper()
	list, err := lab.Lines[importedHost](e2e.Within(t), e2e.Lab, append([]string{"host", "import"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, h := range list {
		out = append(out, h.Name+" "+h.Outcome)
	}
	return strings.Join(out, ", ")
}

// stays returns the named hosts of the zone, reduced to what people set.
func stays(t *testing.T, names ...string) map[string]protocol.HostView {
	t.Helper()
	list, err := lab.Lines[protocol.HostView](e2e.Within(t), e2e.Lab, "host", "list")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]protocol.HostView{}
	for _, h := range list {
		if slices.Contains(names, h.Name) {
			out[h.Name] = protocol.HostView{Spec: h.Spec, Labels: h.Labels, Slots: h.Slots}
		}
	}
	return out
}

// Two real hosts, one of which is reached through the other, are imported from
// an Ansible inventory with hashed known_hosts; one of them is dialled. An
// import of the export brings them back.
func TestTheHostsOfAnInventoryAreImportedAndCanBeReached(t *testing.T) {
	dir := t.TempDir()
	var inventory, known strings.Builder
	inventory.WriteString("[edge]\n")
	for _, name := range []string{"imp-inner", "imp-gate"} {
		at := filepath.Join(e2e.Lab.Dir, "sshd-"+name)
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		d, err := hosttest.NewSSHD(context.Background(), at, hosttest.Options{Name: name, Root: filepath.Join(e2e.Lab.Dir, name)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		s := d.Spec()
		fmt.Fprintf(&inventory, "%s ansible_host=%s ansible_port=%d ansible_user=%s ansible_ssh_private_key_file='%s' fairlead_root='%s'", strings.ToUpper(name), s.Address, s.Port, s.User, s.Identity, s.Root)
		if name == "imp-inner" {
			inventory.WriteString(` ansible_ssh_common_args="-o ProxyJump=imp-gate"`)
		}
		inventory.WriteString("\n")
		fmt.Fprintf(&known, "[%s]:%d %s\n", s.Address, s.Port, d.HostKey())
	}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file, pins := write("inventory", inventory.String()), write("known_hosts", known.String())
	if out, err := exec.Command("ssh-keygen", "-H", "-f", pins).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	r := e2e.Exits(t, 2, "host", "import", file)
	if !strings.Contains(r.Stderr, "nobody to ask: imp-gate, imp-inner") || !strings.Contains(r.Stderr, "read as ansible-ini") {
		t.Errorf("without pins ctl says %q", r.Stderr)
	}
	r = e2e.Exits(t, 2, "host", "import", write("bad.ini", "a ansible_port=0\n[edge:things]\n"))
	if !strings.Contains(r.Stderr, "ansible-inventory cannot read it: ") || !strings.Contains(r.Stderr, "Section [edge:things] has unknown type: things") {
		t.Errorf("of a bad file ctl says %q", r.Stderr)
	}
	r = e2e.Exits(t, 2, "host", "import", write("bad.ini", "a ansible_port=0\nb fairlead_slots=no\n"))
	if !strings.Contains(r.Stderr, "2 mistakes") || !strings.Contains(r.Stderr, "host a: ansible_port takes") || !strings.Contains(r.Stderr, "host b: fairlead_slots takes") {
		t.Errorf("of hosts with mistakes ctl says %q", r.Stderr)
	}
	all := []string{file, "--known-hosts", pins, "--label", "from=ansible", "--slots", "2"}
	if got := imports(t, append(all, "--dry-run")...); got != "imp-gate would_add, imp-inner would_add" {
		t.Errorf("a dry run says %s", got)
	}
	if left := stays(t, "imp-gate", "imp-inner"); len(left) != 0 {
		t.Fatalf("a dry run added %v", left)
	}
	// A person who trusts the first host's key but not the second, which is
	// shown over that host, adds neither.
	p := e2e.At(t, "host", "import", file)
	p.Then("trusted from now on? [y/n]", "y")
	p.Then("trusted from now on? [y/n]", "n")
	p.Hears("import host imp-inner: the key was not trusted; nothing was added")
	if err := <-p.Done; p.Cmd.ProcessState.ExitCode() != 6 {
		t.Errorf("ctl ended with %v", err)
	}
	if left := stays(t, "imp-gate", "imp-inner"); len(left) != 0 {
		t.Fatalf("what was not trusted added %v", left)
	}
	if got := imports(t, all...); got != "imp-gate added, imp-inner added" {
		t.Errorf("the import says %s", got)
	}
	t.Cleanup(func() {
		for _, name := range []string{"imp-inner", "imp-gate"} {
			if r := e2e.Lab.Ctl(context.Background(), nil, "host", "remove", name); r.Code != 0 {
				t.Error(r)
			}
		}
	})
	e2e.OK(t, "host", "provision", "imp-inner")
	e2e.OK(t, "host", "check", "imp-inner") // over imp-gate
	var checked protocol.HostView
	if err := e2e.Lab.JSON(e2e.Within(t), &checked, "host", "show", "imp-inner"); err != nil {
		t.Fatal(err)
	}
	if checked.State != "ready" || checked.Spec.Jump == nil || checked.Spec.Jump.Name != "imp-gate" || checked.Labels["group.edge"] != "yes" || checked.Labels["from"] != "ansible" || checked.Slots != 2 {
		t.Errorf("imp-inner is %+v", checked)
	}

	// A second import, with and without flags for what is known already,
	// changes nothing.
	for _, again := range [][]string{all, {file}} {
		if got := imports(t, again...); got != "imp-gate unchanged, imp-inner unchanged" {
			t.Errorf("%q says %s", again, got)
		}
	}
	before := stays(t, "imp-gate", "imp-inner")
	r = e2e.Exits(t, 6, "-o", "json", "host", "import", file, "--slots", "3", "--only", "imp-gate")
	if !strings.Contains(r.Stdout, `"changes":["slots: 2 → 3"]`) || !strings.Contains(r.Stdout, `"outcome":"differs"`) {
		t.Errorf("ctl says %q", r.Stdout)
	}
	if now := stays(t, "imp-gate", "imp-inner"); !reflect.DeepEqual(now, before) {
		t.Errorf("what was refused changed %v", now)
	}
	if got := imports(t, file, "--slots", "3", "--only", "imp-inner", "--update"); got != "imp-gate changed, imp-inner changed" {
		t.Errorf("the update says %s", got)
	}
	if err := e2e.Lab.JSON(e2e.Within(t), &checked, "host", "show", "imp-inner"); err != nil || checked.Slots != 3 || checked.State != "ready" {
		t.Errorf("imp-inner is %+v, %v", checked, err)
	}

	before = stays(t, "imp-gate", "imp-inner")
	for _, format := range []string{"yaml", "ansible-yaml", "ssh-config"} {
		text := e2e.OK(t, "host", "export", "--format", format, "imp-inner") // and its jump host
		e2e.OK(t, "host", "remove", "imp-inner")
		e2e.OK(t, "host", "remove", "imp-gate")
		if got := imports(t, write("exported", text), "--format", format); got != "imp-gate added, imp-inner added" {
			t.Errorf("what was exported as %s says %s", format, got)
		}
		if now := stays(t, "imp-gate", "imp-inner"); !reflect.DeepEqual(now, before) {
			t.Errorf("as %s they are %+v, and were %+v", format, now, before)
		}
	}
	e2e.Exits(t, 3, "host", "export", "imp-nobody")
	e2e.Exits(t, 2, "host", "export", "--format", "ansible-ini")
}
