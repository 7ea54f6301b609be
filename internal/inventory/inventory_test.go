package inventory

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func parsed(t *testing.T, o Options, text string) *File {
	t.Helper()
	if o.Home == "" {
		o.Home = "/home/dev"
	}
	f, err := Parse([]byte(text), o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// line is a host as a table has it.
func line(h Host) string {
	s := h.Name + " " + h.User + "@" + h.Address + ":" + fmt.Sprint(h.Port)
	for _, k := range slices.Sorted(maps.Keys(h.Labels)) {
		s += " " + k + "=" + h.Labels[k]
	}
	for _, w := range []struct{ k, v string }{{"jump", h.Jump}, {"identity", h.Identity}, {"root", h.Root}, {"keys", strings.Join(h.HostKeys, ",")}, {"known", h.KnownHosts}, {"pins", strings.Join(h.PinFiles, ",")}, {"alias", h.KeyName}} {
		if w.v != "" {
			s += " " + w.k + ":" + w.v
		}
	}
	if h.Slots > 0 {
		s += fmt.Sprint(" slots:", h.Slots)
	}
	return s
}

func lines(f *File) []string {
	var out []string
	for _, h := range f.Hosts {
		out = append(out, line(h))
	}
	return out
}

func TestAFileSaysWhichHostsThereAre(t *testing.T) {
	for _, c := range []struct {
		name, text string
		format     Format
		want       []string
	}{
		{"ours.yaml", `
hosts:
  Web-1:                      # small letters from here on
    address: web-1.example
    user: dev
    port: 2222
    labels: {gpu: no, mem: 32}
    slots: 8
    jump: bastion
    identity: /keys/id
    root: /srv/fl
    host_keys: [ "SHA256:x", "ssh-ed25519 AAAA" ]
  bastion: {address: 192.0.2.1, known_hosts: /etc/kh}
`, YAML, []string{
			"bastion @192.0.2.1:0 known:/etc/kh",
			"web-1 dev@web-1.example:2222 gpu=no mem=32 jump:bastion identity:/keys/id root:/srv/fl keys:SHA256:x,ssh-ed25519 AAAA slots:8",
		}},
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
			"mail.example.org root@mail.example.org:0 identity:/keys/all",
			"web01.example.org web@web01.example.org:2022 group.site=yes group.web=yes identity:/keys/all",
			"web03.example.org web@web03.example.org:2022 group.site=yes group.web=yes identity:/keys/all",
			"db-a the dba@db-a:5022 group.db=yes group.site=yes group.web=yes identity:/home/dev/.ssh/db key",
			"db-b web@db-b:5022 group.site=yes group.web=yes identity:/keys/all",
		}},
		{"inv", `
[inner]
a ansible_host=10.0.0.1 ansible_ssh_common_args='-o StrictHostKeyChecking=no -o ProxyJump="ops@10.0.0.9:22"'
[gate]
gate ansible_host=10.0.0.9 ansible_user=ops ansible_ssh_common_args='-o UserKnownHostsFile=~/kh'
[2001:db8::7]:2200
`, AnsibleINI, nil},
		{"inv.ini", `
a ansible_host=10.0.0.1 ansible_ssh_common_args='-o StrictHostKeyChecking=no -o ProxyJump="ops@10.0.0.9:22"'
gate ansible_host=10.0.0.9 ansible_user=ops ansible_ssh_common_args='-o UserKnownHostsFile=~/kh'
b ansible_ssh_common_args="-J gate"
`, AnsibleINI, []string{
			"gate ops@10.0.0.9:0 pins:/home/dev/kh",
			"a @10.0.0.1:0 jump:gate",
			"b @b:0 jump:gate",
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
		{"/home/x/.ssh/config", `
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
    UserKnownHostsFile ~/.ssh/kh /dev/null
    # fairlead: slots 3
    # fairlead: label gpu=no
Host *
    User last
    Port 1
`, SSHConfig, []string{
			"bastion first@192.0.2.1:1 gpu=no pins:/home/dev/.ssh/kh alias:gate slots:3",
			"web-1 first@web-1.example:2200 jump:bastion identity:/home/dev/.ssh/first",
			"web-9 first@web-9.example:22 jump:bastion identity:/home/dev/.ssh/first",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.want == nil { // found out, and not liked
				if _, err := Parse([]byte(c.text), Options{Name: c.name}); !strings.Contains(err.Error(), `"2001:db8::7" is not a name`) {
					t.Error(err)
				}
				return
			}
			f := parsed(t, Options{Name: c.name}, c.text)
			if got := lines(f); !slices.Equal(got, c.want) || f.Format != c.format {
				t.Errorf("as %s:\n%s\nwant\n%s", f.Format, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestAFormatIsFoundOut(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       Format
	}{
		{"-", "Host a\n HostName b\n", SSHConfig},
		{"x", "# c\nInclude other\n", SSHConfig},
		{"x", "ForwardAgent no\nHost a\n", SSHConfig},
		{"/root/.ssh/config", "User me\n", SSHConfig},
		{"hosts", "web1\nweb2 ansible_host=x\n", AnsibleINI},
		{"hosts", "[web]\nweb1\n", AnsibleINI},
		{"hosts", "hosts:\n  a: {address: b}\n", YAML},
		{"x", "---\nhosts:\n  all: {address: b}\n", YAML},
		{"x", "all:\n  hosts:\n    a:\n", AnsibleYAML},
		{"x.yml", "web:\n  hosts: {a: }\n", AnsibleYAML},
		{"x.json", `{"hosts": {"a": {"address": "b"}}}`, YAML},
		{"x", "", YAML},
	} {
		if got := Detect(c.name, []byte(c.text)); got != c.want {
			t.Errorf("%s %q is %s, want %s", c.name, c.text, got, c.want)
		}
	}
}

func TestAllMistakesAreToldAtOnceEachWithItsPlace(t *testing.T) {
	for _, c := range []struct {
		format Format
		text   string
		want   []string
	}{
		{YAML, "hosts:\n  a: {address: x, port: 70000}\n  b b: {address: x}\n  c:\n  d: {adress: x}\nother: 1\n  \n", []string{
			"line 2, column 25: host a: port takes a whole number from 1 to 65535",
			`line 3, column 3: "b b" is not a name of a host: 1 to 63 of a-z, 0-9, dot, dash and underscore, beginning with a letter or digit`,
			"line 4, column 3: host c needs an address, such as c: {address: c.example}",
			"line 5, column 3: host d needs an address",
			"line 5, column 7: host d: adress: no such key: there are address, user, port, labels, slots, jump, identity, root, host_keys, known_hosts",
			"line 6, column 1: other: no such key: there is hosts",
		}},
		{YAML, "hosts:\n  Web: {address: x}\n  web: {address: y}\n", []string{
			"line 3, column 3: host web would be called web, and so would Web of line 2, column 3: rename one of them"}},
		{YAML, "hosts:\n  a: {address: x, jump: b}\n  b: {address: x, jump: c}\n  c: {address: x, jump: a}\n  d: {address: x, jump: me@nowhere}\n  local: {address: x}\n", []string{
			"line 2, column 25: hosts jump over each other in a circle: a over b over c over a",
			"line 5, column 25: host d jumps over me@nowhere, which is not a host of this file: a jump host is a host like others, with a key of its own that is pinned",
			"line 6, column 3: host local: that is the name of the worker's own machine, which needs no import (`ctl host set local` gives labels and slots)",
		}},
		{YAML, "hosts: [\n", []string{"line 1, column 8: it cannot be read as YAML: sequence end token ']' not found"}},
		{AnsibleINI, "web[3:1]\n[web\n[web:things]\nx\n  [g:children]\nnone\n[web:vars]\nnothing\n[g]\na ansible_port=x 'b\nc x y=1 ansible_port=0\n", []string{
			"line 1, column 1: range [3:1]: it ends before it begins",
			`line 2, column 1: "[web" is not a section: there are [group], [group:children] and [group:vars]`,
			"line 3, column 1: [web:things]: there are children and vars",
			"line 6, column 1: group g has the child none, and there is no such group",
			"line 7, column 1: [web:vars]: there is no group web",
			`line 8, column 1: "nothing" is not name=value`,
			"line 10, column 1: a quotation is not closed",
			`line 11, column 3: "x" is not name=value`,
			"line 11, column 9: host c: ansible_port takes a whole number from 1 to 65535",
		}},
		{AnsibleINI, "[a:children]\nb\n[b:children]\na\n", []string{"line 1, column 1: group a is a child of itself, by way of its children"}},
		{AnsibleYAML, "all:\n  hosts:\n    a: {ansible_host: '{{ x }}', ansible_user: !vault abc}\n  host: {}\n", []string{
			"line 3, column 23: host a: ansible_host is a template, which only Ansible fills in",
			"line 3, column 48: host a: ansible_user is in a vault, which only Ansible opens",
			"line 4, column 3: group all: host: no such key: there are hosts, children and vars",
		}},
		{SSHConfig, "Host a\n  Port no\n  HostName\n  ProxyCommand nc %h %p\nHost b\n  IdentityFile %u/x\n  ProxyJump a,c\n  # fairlead: slot 1\n  User \"x\n", []string{
			"line 2, column 3: host a: port takes a whole number from 1 to 65535",
			"line 3, column 3: \"HostName\" has no value",
			"line 4, column 3: host a is reached by a ProxyCommand, which workers do not run: say ProxyJump, or leave it out with --only",
			`line 6, column 3: host b: %u in "%u/x" is not known here`,
			"line 7, column 3: host b jumps over c by way of a: say of host c itself that it is reached over a",
			"line 8, column 3: # fairlead: slot 1: there are slots, label, root, host_key and known_hosts, each with a value",
			"line 9, column 3: User: a quotation is not closed",
		}},
	} {
		_, err := Parse([]byte(c.text), Options{Name: "f", Format: c.format, Home: "/home/dev"})
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%s %q gives %v", c.format, c.text, err)
			continue
		}
		var got []string
		for _, p := range e.Problems {
			got = append(got, p.String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", c.format, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

func TestWhatIsNotUnderstoodIsSaidWithItsLine(t *testing.T) {
	f := parsed(t, Options{Name: "config", Format: SSHConfig}, "Host a\n  User x\nMatch host a exec \"true\"\n  Port 7\nMatch all\n  Port 8\n")
	if got := lines(f); !slices.Equal(got, []string{"a x@a:8"}) || len(f.Warnings) != 1 || !strings.HasPrefix(f.Warnings[0].String(), "line 3, column 1: Match host a exec true: the settings behind it were left out") {
		t.Errorf("%q, %v", got, f.Warnings)
	}
	f = parsed(t, Options{Name: "hosts"}, "[w]\na ansible_ssh_extra_args='-v -o Compression=yes' ansible_password=hunter2\nb ansible_connection=local\n")
	if got := fmt.Sprint(lines(f), f.Warnings); strings.Contains(got, "hunter2") || strings.Contains(got, "b @") || len(f.Warnings) != 4 {
		t.Error(got)
	}
}

func TestAnOpenSSHConfigIncludesOthers(t *testing.T) {
	home := t.TempDir()
	for name, text := range map[string]string{
		"conf.d/10-a": "Port 10\nHost a\n  User a10\n",
		"conf.d/20-b": "Host b\n  User b20\n  Port x\n",
		"more":        "HostName more.example\nHost stranger\n  User s\n",
	} {
		path := filepath.Join(home, ".ssh", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	o := Options{Name: "config", Format: SSHConfig, Home: home, Glob: filepath.Glob, Read: os.ReadFile, Only: []string{"[ac]", "stranger"}}
	f := parsed(t, o, "Include conf.d/*\nHost c\n  Include more\n  User me\nHost *\n  User last\n")
	if got := lines(f); !slices.Equal(got, []string{"a a10@a:10", "c me@more.example:10"}) {
		t.Errorf("%q", got)
	}
	o.Only = nil
	_, err := Parse([]byte("Include conf.d/20-b\n"), o)
	if want := filepath.Join(home, ".ssh/conf.d/20-b") + ", line 3, column 3: host b: port takes"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	if err := os.WriteFile(filepath.Join(home, ".ssh", "more"), []byte("Include more\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Parse([]byte("Include more\n"), o); err == nil || !strings.Contains(err.Error(), "more than 16 deep") {
		t.Error(err)
	}
}

func TestOnlyWhatIsWantedCounts(t *testing.T) {
	text := "hosts:\n  web-1: {address: x, jump: gate}\n  gate: {address: y}\n  bad: {port: no}\n"
	f := parsed(t, Options{Name: "f", Only: []string{"web-*"}}, text)
	if got := lines(f); !slices.Equal(got, []string{"gate @y:0", "web-1 @x:0 jump:gate"}) {
		t.Errorf("%q", got)
	}
	for only, want := range map[string]string{"none-*": "none of its hosts is called none-*", "b*": "port takes", "[": "is not a pattern"} {
		if _, err := Parse([]byte(text), Options{Name: "f", Only: []string{only}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", only, err)
		}
	}
}

// What is written is read as the same hosts, whatever they are called and have.
func TestWhatIsWrittenIsReadAsTheSame(t *testing.T) {
	word := rapid.StringMatching(`[a-zA-Z0-9 #:'"\\}%,éß=~!-]{0,12}`)
	trimmed := rapid.Map(word, strings.TrimSpace)
	rapid.Check(t, func(t *rapid.T) {
		var hosts []Host
		for i := range rapid.IntRange(1, 4).Draw(t, "hosts") {
			h := Host{Name: fmt.Sprintf("%s%d", rapid.StringMatching(`[a-z0-9][a-z0-9._-]{0,20}`).Draw(t, "name"), i),
				Address: rapid.SampledFrom([]string{"web.example", "192.0.2.7", "2001:db8::1"}).Draw(t, "address"),
				User:    rapid.StringMatching(`[a-z][a-z0-9_-]{0,8}`).Draw(t, "user"), Port: rapid.IntRange(0, 65535).Draw(t, "port"),
				Slots: rapid.IntRange(1, 100).Draw(t, "slots"), Labels: map[string]string{}}
			for range rapid.IntRange(0, 3).Draw(t, "labels") {
				h.Labels[rapid.StringMatching(`[a-z.@-]{1,8}`).Draw(t, "label")] = trimmed.Draw(t, "value")
			}
			if s := trimmed.Draw(t, "path"); s != "" {
				h.Identity, h.Root = "/keys/"+s, "/srv/"+s
			}
			if rapid.Bool().Draw(t, "file") {
				h.KnownHosts = "/etc/kh"
			} else {
				h.HostKeys = []string{"SHA256:" + strings.Repeat("x", 43), "ssh-ed25519 AAAA+/="}
			}
			if i > 0 {
				h.Jump = hosts[rapid.IntRange(0, i-1).Draw(t, "jump")].Name
			}
			hosts = append(hosts, h)
		}
		format := rapid.SampledFrom([]Format{YAML, AnsibleYAML, SSHConfig}).Draw(t, "format")
		data, err := Write(format, hosts)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Parse(data, Options{Name: "-", Home: "/home/dev"})
		if err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		byName := func(a, b Host) int { return strings.Compare(a.Name, b.Name) }
		got := slices.SortedFunc(slices.Values(f.Hosts), byName)
		slices.SortFunc(hosts, byName)
		for i := range got {
			h := &got[i]
			h.Place, h.Places, h.written, h.via = Place{}, nil, "", ""
			if h.Labels == nil {
				h.Labels = map[string]string{}
			}
		}
		if f.Format != format || !reflect.DeepEqual(got, hosts) {
			t.Fatalf("as %s:\n%+v\nwant\n%+v\n%s", f.Format, got, hosts, data)
		}
	})
}

func TestWhatAFormatCannotSayIsNotWritten(t *testing.T) {
	h := Host{Name: "a", Address: "b", Labels: map[string]string{"k": "two\nlines"}}
	if _, err := Write(SSHConfig, []Host{h}); err == nil || !strings.Contains(err.Error(), "host a: label") {
		t.Error(err)
	}
	h.Labels["k"] = "{{ x }}"
	if _, err := Write(AnsibleYAML, []Host{h}); err == nil || !strings.Contains(err.Error(), "host a: ") {
		t.Error(err)
	}
	for _, f := range []Format{AnsibleINI, "toml"} {
		if _, err := Write(f, []Host{h}); err == nil {
			t.Errorf("%s is written", f)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"hosts:\n  a: &x {address: b, labels: {c: d}, jump: a}\n  b: *x\n",
		"[a:children]\nb\n[b]\nx[1:3:2]y[a:c]:22 k='v'\n[b:vars]\nansible_ssh_common_args=-J x\n",
		"all:\n  children:\n    a: {hosts: {b[1:2]: {ansible_port: 3}}, vars: {x: !vault y}}\n",
		"Host a b*\n  ProxyJump b,c\n  IdentityFile %d/%%\nMatch all\nInclude x\n# fairlead: label a=b\n",
	} {
		for i := range Formats {
			f.Add(s, byte(i))
		}
	}
	f.Fuzz(func(t *testing.T, text string, format byte) {
		o := Options{Name: "f", Format: append(Formats, "")[int(format)%(len(Formats)+1)], Home: "/h",
			Glob: func(p string) ([]string, error) { return []string{p}, nil },
			Read: func(string) ([]byte, error) { return []byte("Host c\nPort 1\n"), nil }}
		file, err := Parse([]byte(text), o)
		if err != nil {
			if err.Error() == "" {
				t.Error("a mistake without a word")
			}
			return
		}
		added := map[string]bool{}
		for _, h := range file.Hosts {
			if !namePattern.MatchString(h.Name) || added[h.Name] {
				t.Errorf("%q is read as a name, or twice", h.Name)
			}
			added[h.Name] = true
		}
		later := map[string]bool{}
		for _, h := range slices.Backward(file.Hosts) {
			later[h.Name] = true
			if later[h.Jump] {
				t.Errorf("%s jumps over %s, which comes later", h.Name, h.Jump)
			}
		}
	})
}
