package inventory

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fairlead.dev/fairlead/internal/realparts"
)

func write(t *testing.T, path, text string, mode os.FileMode) string {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), mode)); err != nil {
		t.Fatal(err)
	}
	return path
}

// standIn replaces a program by a shell script.
func standIn(t *testing.T, program, script string) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, program), "#!/bin/sh\n"+script, 0o700)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func problems(err error) []string {
	var e *Error
	if !errors.As(err, &e) {
		return []string{"no mistake: " + errString(err)}
	}
	var out []string
	for _, p := range e.Problems {
		out = append(out, p.String())
	}
	return out
}

func errString(err error) string {
	if err == nil {
		return "none"
	}
	return err.Error()
}

func TestAnsibleInventoryReadsAnsiblesFiles(t *testing.T) {
	realparts.NotShort(t)
	for _, c := range []struct {
		name, text string
		format     Format
		want       []string
	}{
		{"hosts", `
; a comment
mail.example.org ansible_user=root   # ungrouped
[web]
web[01:03:2].example.org ansible_port=2022
db-[a:b]:5022
[db]
db-a ansible_user='the dba' ansible_ssh_private_key_file="~/.ssh/db key"
[site:children]
web
db
[site:vars]
ansible_user = site      # no comment: all of it is the name
[web:vars]
ansible_user="web"  # a comment
[all:vars]
ansible_user=all
ansible_ssh_private_key_file=/keys/all
`, AnsibleINI, []string{
			"db-a the dba@db-a:5022 group.db=yes group.site=yes group.web=yes identity:/home/dev/.ssh/db key",
			"db-b web@db-b:5022 group.site=yes group.web=yes identity:/keys/all",
			"mail.example.org root@mail.example.org:0 identity:/keys/all",
			"web01.example.org web@web01.example.org:2022 group.site=yes group.web=yes identity:/keys/all",
			"web03.example.org web@web03.example.org:2022 group.site=yes group.web=yes identity:/keys/all",
		}},
		{"inv.yml", `
all:
  vars: {ansible_user: all, ansible_port: 2200}
  hosts:
    lone:
  children:
    prod:
      vars: {ansible_user: prod}
      children:
        web:
          hosts:
            web[1:2]:
            web3: {ansible_user: me, fairlead_slots: 2, fairlead_labels: {gpu: "no"}, fairlead_host_keys: ["SHA256:y"]}
    zoo:
      hosts: {web1: {ansible_port: 22}, near: {ansible_connection: local}}
      vars: {ansible_user: zoo}
`, AnsibleYAML, []string{
			"lone all@lone:2200",
			"web1 zoo@web1:22 group.prod=yes group.web=yes group.zoo=yes",
			"web2 prod@web2:2200 group.prod=yes group.web=yes",
			"web3 me@web3:2200 gpu=no group.prod=yes group.web=yes keys:SHA256:y slots:2",
		}},
	} {
		path := write(t, filepath.Join(t.TempDir(), c.name), c.text, 0o600)
		f := parsed(t, Options{Name: path, Path: path}, c.text)
		if got := lines(f); !slices.Equal(got, c.want) || f.Format != c.format || len(f.Warnings) > 1 {
			t.Errorf("as %s:\n%s\nwant\n%s\n%v", f.Format, strings.Join(got, "\n"), strings.Join(c.want, "\n"), f.Warnings)
		}
	}
}

func TestVariablesBesideAnInventoryCount(t *testing.T) {
	realparts.NotShort(t)
	t.Setenv("ANSIBLE_INVENTORY_EXPORT", "true") // a user may have set this variable
	text := "[web]\na\nb\n"
	path := write(t, filepath.Join(t.TempDir(), "hosts"), text, 0o600)
	write(t, filepath.Join(filepath.Dir(path), "group_vars", "web.yml"), "ansible_user: grouped\n", 0o600)
	write(t, filepath.Join(filepath.Dir(path), "host_vars", "b"), "ansible_port: 7\n", 0o600)
	for from, want := range map[string][]string{
		path: {"a grouped@a:0 group.web=yes", "b grouped@b:7 group.web=yes"},
		"":   {"a @a:0 group.web=yes", "b @b:0 group.web=yes"}, // as from standard input
	} {
		if got := lines(parsed(t, Options{Name: "-", Path: from}, text)); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", from, got, want)
		}
	}
}

func TestAnsibleSaysWhatItCannotRead(t *testing.T) {
	realparts.NotShort(t)
	t.Setenv("TMPDIR", "/tmp") // Ansible breaks longer names
	_, err := Parse(t.Context(), []byte("a\n[web:things]\nb\n"), Options{Name: "standard input"})
	if got := problems(err); len(got) != 1 || !strings.HasPrefix(got[0], "ansible-inventory cannot read it: ") || !strings.Contains(got[0], "standard input:2: Section [web:things] has unknown type: things") {
		t.Errorf("%q", got)
	}
}

func TestSSHSaysTheSettingsOfTheNamesInItsConfig(t *testing.T) {
	realparts.NotShort(t)
	for _, c := range []struct {
		text string
		want []string
	}{
		{`
User first
Host web-? !web-9
    Port 2200
Host web-1 web-9 git*
    HostName %h.example
    IdentityFile ~/.ssh/%r
    ProxyJump bastion
    Port 22
Host=bastion
    HostName "192.0.2.1"
    HostKeyAlias gate
    UserKnownHostsFile /kh /dev/null
    # fairlead: slots 3
    # fairlead: label gpu=no
    # fairlead: slots 4
Host *
    # fairlead: label gpu=yes
    # fairlead: root /srv/fl
    User last
    Port 1`, []string{
			"bastion first@192.0.2.1:1 gpu=no root:/srv/fl pins:/kh alias:gate slots:3",
			"web-1 first@web-1.example:2200 gpu=yes jump:bastion identity:/home/dev/.ssh/first root:/srv/fl",
			"web-9 first@web-9.example:0 gpu=yes jump:bastion identity:/home/dev/.ssh/first root:/srv/fl",
		}},
		// A setting that the config does not have is not made up. A Match line counts.
		{"Host a B\n  IdentityFile none\nHost c\n  IdentityFile /one\n  IdentityFile /two\nMatch originalhost B exec \"true\"\n  User x\nMatch host a exec \"false\"\n  Port 7\n", []string{
			"a @a:0", "b x@b:0", "c @c:0 identity:/one"}},
		{"Host a\nMatch all\n  Port 8\n  # fairlead: slots 2\n", []string{"a @a:8 slots:2"}},
		{"Host a\n  Port 8\nMatch final host a\n  User late\n  Port 9\n", []string{"a late@a:8"}},
	} {
		f := parsed(t, Options{Name: "config", Format: SSHConfig}, c.text)
		if got := lines(f); !slices.Equal(got, c.want) {
			t.Errorf("%s\n%s\nwant\n%s", c.text, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
	f := parsed(t, Options{Name: "config", Format: SSHConfig}, "Host a\n  IdentityFile /one\n  IdentityFile /two\nMatch host a\n  # fairlead: slots 2\n  Include /nowhere/*\n")
	var warned []string
	for _, w := range f.Warnings {
		warned = append(warned, w.String())
	}
	if want := []string{"line 1, column 1: host a: a further IdentityFile was left out: the first is taken",
		"line 5, column 3: # fairlead: slots 2: it was left out: only ssh knows which hosts a Match line is for",
		"line 6, column 3: no hosts were looked for in what it includes: only ssh knows when a Match line applies"}; !slices.Equal(warned, want) {
		t.Errorf("%q, want %q", warned, want)
	}
}

func TestMistakesOfAnOpenSSHConfigHaveTheirLines(t *testing.T) {
	realparts.NotShort(t)
	for text, want := range map[string][]string{
		"Host a\n  Port no\n  HostName\n  Nonsense yes\nHost b\n  User \"x\n  # fairlead: slot 1\n": {
			"line 2: Bad port 'no'.",
			"line 3: no argument after keyword \"hostname\"",
			"line 4: Bad configuration option: nonsense",
			"line 6: invalid quotes",
			"line 7, column 3: # fairlead: slot 1: there are slots, label, root, host_key and known_hosts, each with a value",
		},
		"Host a\n  ProxyCommand nc %h %p\n\nHost b\n  IdentityFile %u/x\n  ProxyJump a,c\nHost c\n  IdentityFile ${HOME}/x\n  # fairlead: slots 0\n": {
			"line 1, column 1: host a is reached by a ProxyCommand, which workers do not run: say ProxyJump, or leave it out with --only",
			`line 4, column 1: host b: %u in "%u/x" is not supported here`,
			"line 4, column 1: host b jumps over c through a: this file must also have host c, with a as its jump host",
			`line 7, column 1: host c: "${HOME}/x": environment variables are not expanded`,
			"line 9, column 3: host c: slots takes a whole number from 1 to 10000",
		},
	} {
		_, err := Parse(t.Context(), []byte(text), Options{Name: "f", Format: SSHConfig, Home: "/home/dev"})
		if got := problems(err); !slices.Equal(got, want) {
			t.Errorf("%s\n%s\nwant\n%s", text, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// ssh does not know %x in HostName and refuses that host.
func TestOneHostThatSSHRefusesLeavesTheOthers(t *testing.T) {
	realparts.NotShort(t)
	text := "Host gate\n  User g\nHost web\n  HostName %x\n"
	_, err := Parse(t.Context(), []byte(text), Options{Name: "f", Format: SSHConfig})
	if got := problems(err); len(got) != 1 || !strings.HasPrefix(got[0], "line 3, column 1: host web: ssh cannot read its settings: ") || strings.Contains(got[0], "fairlead") {
		t.Errorf("%q", got)
	}
	f := parsed(t, Options{Name: "f", Format: SSHConfig, Only: []string{"gate"}}, text)
	if got := lines(f); !slices.Equal(got, []string{"gate g@gate:0"}) {
		t.Errorf("%q", got)
	}
}

// A command of Match exec may leave a process that keeps ssh's error output open.
func TestAProcessThatAProgramLeavesBehindChangesNothing(t *testing.T) {
	standIn(t, "ssh", "echo hostname x\nsleep 60 >/dev/null &\n")
	f := parsed(t, Options{Name: "f", Format: SSHConfig}, "Host a\n")
	if got := lines(f); !slices.Equal(got, []string{"a @x:0"}) {
		t.Errorf("%q", got)
	}
}

func TestAnOpenSSHConfigIncludesOthers(t *testing.T) {
	realparts.NotShort(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "conf.d/10-a"), "Port 10\nHost a\n  User a10\n", 0o600)
	b := write(t, filepath.Join(dir, "conf.d/20-b"), "Host b\n  User b20\n", 0o600)
	more := write(t, filepath.Join(dir, "more"), "HostName more.example\n# fairlead: slots 5\nHost stranger\n  User s\n", 0o600)
	o := Options{Name: "config", Format: SSHConfig, Home: "/h", Glob: filepath.Glob, Read: os.ReadFile, Only: []string{"[ac]", "stranger"}}
	f := parsed(t, o, "Include "+dir+"/conf.d/*\nHost c\n  Include \""+more+"\"\n  # fairlead: label k=v\n  User me\nHost *\n  User last\n")
	if got := lines(f); !slices.Equal(got, []string{"a a10@a:10", "c me@more.example:10 k=v slots:5"}) {
		t.Errorf("%q", got)
	}
	o.Only = nil
	write(t, b, "Host b\n  User b20\n  Port x\n", 0o600)
	_, err := Parse(t.Context(), []byte("Include "+b+"\n"), o)
	if got := problems(err); !slices.Equal(got, []string{b + ", line 3: Bad port 'x'."}) {
		t.Errorf("%q", got)
	}
	write(t, more, "Include "+more+"\n", 0o600)
	if _, err := Parse(t.Context(), []byte("Include "+more+"\nHost a\n"), o); err == nil || !strings.Contains(err.Error(), "more than 16 deep") {
		t.Error(err)
	}
}

func TestNoNameReachesSSHAsAnOption(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	standIn(t, "ssh", `line=$(printf '%s|' "$@")
printf '%s\n' "$line" >>`+log+"\necho hostname x\n") // one write a line: several run at once
	text := "Host -oProxyCommand=id good --\nHost me@there ssh://x \"-v\" UPPER pat*\n"
	_, err := Parse(t.Context(), []byte(text), Options{Name: "f", Format: SSHConfig})
	if got := problems(err); len(got) != 5 || slices.ContainsFunc(got, func(p string) bool { return !strings.Contains(p, "is not a name of a host") }) {
		t.Errorf("%q", got)
	}
	ran, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSpace(string(ran)), "\n")
	for i, line := range got {
		before, name, ok := strings.Cut(line, "|--|")
		if got[i] = name; !ok || !strings.HasPrefix(before, "-G|-T|-F|/") {
			t.Errorf("ssh was run as %q", line)
		}
	}
	if slices.Sort(got); !slices.Equal(got, []string{"UPPER|", "good|"}) {
		t.Errorf("ssh was asked for %q", got)
	}
}

func TestAProgramIsBoundedAndMissedByName(t *testing.T) {
	ini := []byte("[web]\na\n")
	standIn(t, "ansible-inventory", "exec yes\n")
	_, err := Parse(t.Context(), ini, Options{Name: "f"})
	if got := problems(err); len(got) != 1 || !strings.Contains(got[0], "prints more than") {
		t.Errorf("%q", got)
	}

	standIn(t, "ansible-inventory", "exec tail -f /dev/null\n")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err = Parse(ctx, ini, Options{Name: "f"}); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "ansible-inventory was stopped") {
		t.Error(err)
	}

	standIn(t, "ansible-inventory", "yes mistake | head -c 100000 >&2; exit 3\n")
	_, err = Parse(t.Context(), ini, Options{Name: "f"})
	if got := problems(err); len(got) != 1 || !strings.HasPrefix(got[0], "ansible-inventory cannot read it: mistake mistake") || len(got[0]) > 2*maxSaid {
		t.Errorf("%q", got)
	}

	t.Setenv("PATH", t.TempDir())
	for format, program := range map[Format]string{AnsibleINI: "ansible-inventory", AnsibleYAML: "ansible-inventory", SSHConfig: "ssh"} {
		var missing *MissingError
		if _, err := Parse(t.Context(), []byte("Host a\n"), Options{Name: "f", Format: format}); !errors.As(err, &missing) || missing.Program != program {
			t.Errorf("%s: %v", format, err)
		}
	}
}

func TestWhatIsWrittenForOtherProgramsIsReadAsTheSame(t *testing.T) {
	realparts.NotShort(t)
	rapid.Check(t, func(t *rapid.T) { writtenAndRead(t, SSHConfig, drawnHosts(4).Draw(t, "hosts")) })
	for seed := range 3 {
		writtenAndRead(t, AnsibleYAML, drawnHosts(200).Example(seed))
	}
}
