package inventory

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	f, err := Parse(t.Context(), []byte(text), o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// line returns a host as a line of the tests' tables.
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
		{"list.json", `{
  "_meta": {"hostvars": {
    "GATE": {"ansible_host": "10.0.0.9", "ansible_user": "ops", "ansible_ssh_common_args": "-o UserKnownHostsFile=~/kh"},
    "a": {"ansible_host": "10.0.0.1", "ansible_ssh_common_args": "-o StrictHostKeyChecking=no -o ProxyJump=\"ops@10.0.0.9:22\"", "ansible_user": null},
    "b": {"ansible_ssh_common_args": "-J gate", "ansible_port": 2200, "fairlead_labels": "gpu=no mem='3 4'", "fairlead_slots": "3"},
    "c": {"fairlead_labels": {"n": 3, "y": true, "t": "no"}, "fairlead_slots": 2, "fairlead_root": "/srv/fl", "fairlead_known_hosts": "/etc/kh", "fairlead_jump": "b",
      "ansible_ssh_private_key_file": "~/.ssh/id"},
    "d": {"fairlead_host_keys": ["SHA256:x", "ssh-ed25519 AAAA"]},
    "near": {"ansible_connection": "local"}
  }},
  "all": {"children": ["ungrouped", "outer"]},
  "ungrouped": {"hosts": ["GATE", "near"]},
  "outer": {"children": ["inner"], "hosts": ["c"]},
  "inner": {"hosts": ["a", "b", "bare"]}
}`, AnsibleJSON, []string{
			"gate ops@10.0.0.9:0 pins:/home/dev/kh",
			"a @10.0.0.1:0 group.inner=yes group.outer=yes jump:gate",
			"b @b:2200 gpu=no group.inner=yes group.outer=yes mem=3 4 jump:gate slots:3",
			"bare @bare:0 group.inner=yes group.outer=yes",
			"c @c:0 group.outer=yes n=3 t=no y=true jump:b identity:/home/dev/.ssh/id root:/srv/fl known:/etc/kh slots:2",
			"d @d:0 keys:SHA256:x,ssh-ed25519 AAAA",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
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
		{"x.json", `{"web": {"hosts": {"a": {}}}}`, AnsibleYAML},
		{"-", ` {"_meta": {"hostvars": {}}, "all": {"children": []}}`, AnsibleJSON},
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
		{AnsibleJSON, `{"_meta": {"hostvars": {
  "a": {"ansible_host": "{{ x }}", "ansible_user": {"__ansible_vault": "$ANSIBLE_VAULT;1.1;AES256"}, "ansible_port": 0},
  "b": {"ansible_ssh_common_args": "-o 'ProxyCommand=nc %h %p'"},
  "-c": {}, "d": [], "2001:db8::7": {}, "e": {"fairlead_slots": "many", "fairlead_jump": "e"}}},
  "exported": {"hosts": ["f"], "vars": {"x": 1}}, "legacy": ["f"], "a b": {"hosts": ["g"]}}`, []string{
			"group exported is not as `ansible-inventory --list` prints it, without --export",
			"group legacy is not as `ansible-inventory --list` prints it, without --export",
			"host a: ansible_host is a template, which only Ansible fills in",
			"host a: ansible_user is in a vault, which only Ansible opens",
			"host a: ansible_port takes a whole number from 1 to 65535",
			"host b is reached by a ProxyCommand, which workers do not run: say ProxyJump, or leave it out with --only",
			"host d: its variables are no mapping",
			"host e: fairlead_slots takes a whole number from 1 to 10000",
			"host g: the name of its group \"a b\" has letters that no selector takes",
			`"-c" is not a name of a host: 1 to 63 of a-z, 0-9, dot, dash and underscore, beginning with a letter or digit`,
			`"2001:db8::7" is not a name of a host: 1 to 63 of a-z, 0-9, dot, dash and underscore, beginning with a letter or digit`,
			"hosts jump over each other in a circle: e over e",
		}},
		{AnsibleJSON, `{"_meta": {}, "a": {"children": ["b"]}, "b": {"children": ["a"], "hosts": ["x y"]}}`, []string{
			`"x y" is not a name of a host: 1 to 63 of a-z, 0-9, dot, dash and underscore, beginning with a letter or digit`}},
		{AnsibleJSON, "{", []string{"it is not the JSON that `ansible-inventory --list` prints: unexpected end of JSON input"}},
	} {
		_, err := Parse(t.Context(), []byte(c.text), Options{Name: "f", Format: c.format, Home: "/home/dev"})
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

func TestWhatIsNotUnderstoodIsSaid(t *testing.T) {
	f := parsed(t, Options{Name: "-"}, `{"_meta": {"hostvars": {
  "a": {"ansible_ssh_extra_args": "-v -o Compression=yes", "ansible_password": "hunter2"}, "b": {"ansible_connection": "local"}}}}`)
	if got := fmt.Sprint(lines(f), f.Warnings); strings.Contains(got, "hunter2") || strings.Contains(got, "b @") || len(f.Warnings) != 4 {
		t.Error(got)
	}
}

func TestOnlyWhatIsWantedCounts(t *testing.T) {
	text := "hosts:\n  web-1: {address: x, jump: gate}\n  gate: {address: y}\n  bad: {port: no}\n"
	f := parsed(t, Options{Name: "f", Only: []string{"web-*"}}, text)
	if got := lines(f); !slices.Equal(got, []string{"gate @y:0", "web-1 @x:0 jump:gate"}) {
		t.Errorf("%q", got)
	}
	for only, want := range map[string]string{"none-*": "none of its hosts is called none-*", "b*": "port takes", "[": "is not a pattern"} {
		if _, err := Parse(t.Context(), []byte(text), Options{Name: "f", Only: []string{only}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", only, err)
		}
	}
}

// Written hosts are read as the same hosts, whatever names and settings they have.
func TestWhatIsWrittenIsReadAsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { writtenAndRead(t, YAML, drawnHosts(4).Draw(t, "hosts")) })
}

// drawnHosts generates hosts, sorted by name.
func drawnHosts(most int) *rapid.Generator[[]Host] {
	word := rapid.StringMatching(`[a-zA-Z0-9 #:'"\\}%,éß=~!-]{0,12}`)
	trimmed := rapid.Map(word, strings.TrimSpace)
	return rapid.Custom(func(t *rapid.T) []Host {
		var hosts []Host
		for i := range rapid.IntRange(1, most).Draw(t, "hosts") {
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
		return hosts
	})
}

func writtenAndRead(t rapid.TB, format Format, hosts []Host) {
	data, err := Write(format, hosts)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Parse(context.Background(), data, Options{Name: "-", Home: "/home/dev"})
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	byName := func(a, b Host) int { return strings.Compare(a.Name, b.Name) }
	got := slices.SortedFunc(slices.Values(f.Hosts), byName)
	want := slices.SortedFunc(slices.Values(hosts), byName)
	for i := range got {
		h := &got[i]
		h.Place, h.Places, h.written, h.via = Place{}, nil, "", ""
		if h.Labels == nil {
			h.Labels = map[string]string{}
		}
	}
	for i := range want {
		if format == SSHConfig && want[i].Port == 22 {
			want[i].Port = 0 // ssh prints 22 if the config has no port
		}
	}
	if f.Format != format || !reflect.DeepEqual(got, want) {
		t.Fatalf("as %s:\n%+v\nwant\n%+v\n%s", f.Format, got, want, data)
	}
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
	for _, f := range []Format{AnsibleINI, AnsibleJSON, "toml"} {
		if _, err := Write(f, []Host{h}); err == nil {
			t.Errorf("%s is written", f)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"hosts:\n  a: &x {address: b, labels: {c: d}, jump: a}\n  b: *x\n",
		`{"_meta": {"hostvars": {"a": {"ansible_ssh_common_args": "-J b", "fairlead_labels": {"x": 1}}}}, "g": {"hosts": ["b"], "children": ["g"]}}`,
		"Host a b*\n  ProxyJump b,c\nMatch all\nInclude x\n# fairlead: label a=b\nHost=\"c\" !d [e]\n# fairlead: slots 2\n",
	} {
		for i := range 3 {
			f.Add(s, byte(i))
		}
	}
	f.Fuzz(func(t *testing.T, text string, format byte) {
		o := Options{Name: "f", Format: []Format{YAML, AnsibleJSON, SSHConfig}[format%3], Home: "/h",
			Glob: func(p string) ([]string, error) { return []string{p}, nil },
			Read: func(string) ([]byte, error) { return []byte("Host c\nPort 1\n"), nil }}
		if o.Format == SSHConfig { // only the part that does not run ssh
			s := &sshReader{r: &reader{o: o, byName: map[string]int{}}}
			s.file([]byte(text), "", 0, &block{patterns: []string{"*"}})
			for _, name := range s.names {
				s.host(name, nil)
			}
			return
		}
		file, err := Parse(t.Context(), []byte(text), o)
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
