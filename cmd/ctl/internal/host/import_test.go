package host

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/inventory"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/realparts"
)

// Two host keys.
const (
	someKey  = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJmdoRDdmRDVNG3KeiWrEyrEKT8RnLdDzlzvXzUu3OUg"
	otherKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
)

// prepared reads a file as an import does, up to the point where it asks Temporal.
func prepared(t *testing.T, name, text string, f importFlags) (*hostImport, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	a := &core.App{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}
	file, err := readInventory(t.Context(), a, path, f)
	if err != nil {
		return nil, err
	}
	im := &hostImport{app: a, flags: f, path: path, file: file}
	return im, im.prepare()
}

func TestAnImportChecksHostsAsAddDoes(t *testing.T) {
	_, err := prepared(t, "hosts.yaml", `hosts:
  a: {address: "x y", host_keys: [`+someKey+`]}
  b:
    address: b
    host_keys: [no key]
  c: {address: c, identity: relative, known_hosts: /kh}
  d: {address: d, root: ~/x}
  e:
    address: e
    known_hosts: /kh
    host_keys: [`+someKey+`]
`, importFlags{})
	if core.ExitCode(err) != core.ExitUsage {
		t.Fatal(err)
	}
	for _, want := range []string{"line 2, column 16: host a: address", "line 5, column 16: host b: --host-key", "line 6, column 29: host c: \"relative\" is not an absolute path on the workers",
		"line 7, column 25: host d: --root", "line 11, column 16: host e: --host-key and --known-hosts: give one of them"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("it does not say %q:\n%v", want, err)
		}
	}
	for _, f := range []importFlags{{format: "toml"}, {labels: []string{"x"}}, {slots: -1}, {knownHosts: []string{"/nowhere/known_hosts"}}, {only: []string{"b"}}} {
		if _, err := prepared(t, "hosts.yaml", "hosts: {a: {address: x}}", f); core.ExitCode(err) != core.ExitUsage {
			t.Errorf("%+v gives %v", f, err)
		}
	}
}

func TestPinsComeFromKnownHosts(t *testing.T) {
	realparts.NotShort(t) // ssh reads the configs
	kh := filepath.Join(t.TempDir(), "known_hosts")
	// Hashed names are tested end to end.
	if err := os.WriteFile(kh, []byte("[web.example]:2222,other "+someKey+"\n@revoked * "+otherKey+"\nweb.example,alias "+otherKey+"\n@cert-authority *.ca.example "+someKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		config string
		want   []string
	}{
		{"Host a\n HostName web.example\n Port 2222\n", []string{someKey}},
		{"Host a\n HostName web.example\n", nil}, // revoked
		{"Host a\n HostName b.ca.example\n", nil},
		{"Host a\n HostName somewhere\n Port 99\n HostKeyAlias other\n", []string{someKey}},
	} {
		for _, f := range []importFlags{{knownHosts: []string{kh}}, {}} {
			config := c.config
			if len(f.knownHosts) == 0 {
				config += " UserKnownHostsFile " + kh + " /not/there\n"
			}
			im, err := prepared(t, "config", config, f)
			if err != nil {
				t.Fatal(err)
			}
			if got := im.hosts[0].put.Spec.HostKeys; !slices.Equal(got, c.want) {
				t.Errorf("%q: %q, want %q", config, got, c.want)
			}
		}
	}
}

func TestAnImportSaysWhatToDoAboutAProgram(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	for name, want := range map[string]string{"hosts": "install ansible-core", "config": "openssh-client"} {
		_, err := prepared(t, name, map[string]string{"hosts": "[web]\na\n", "config": "Host a\n"}[name], importFlags{})
		var e *core.Error
		if !errors.As(err, &e) || e.Code != core.ExitUsage || !strings.Contains(e.Message, "not installed here") || !strings.Contains(e.Hint, want) {
			t.Errorf("without a program for %s: %v", name, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "ansible-inventory"), []byte("#!/bin/sh\nwhile :; do :; done\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "hosts")
	if err := os.WriteFile(path, []byte("[web]\na\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := &core.App{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}
	a.Flags.Timeout = 50 * time.Millisecond
	_, err := readInventory(t.Context(), a, path, importFlags{})
	if e := core.AsError(t.Context(), err, true, "ctl host import"); e.Code != core.ExitTimeout || !strings.Contains(e.Message, "ansible-inventory was stopped: no answer within 50ms") {
		t.Errorf("a program that does not end: %d, %s", e.Code, e.Message)
	}
}

func TestWhatAFileDoesNotSpeakOfStays(t *testing.T) {
	print := fingerprints(&protocol.HostSpec{HostKeys: []string{someKey}})[0]
	there := protocol.HostView{Name: "a", Slots: 7, Labels: map[string]string{"mine": "x", "gpu": "no"},
		Spec: &protocol.HostSpec{Name: "a", Address: "a.example", User: "dev", Port: 22, Root: "/srv", HostKeys: []string{print}}}
	for text, want := range map[string][]string{
		"{address: a.example, user: dev}":                                         nil,
		"{address: a.example, user: dev, port: 22, host_keys: [" + someKey + "]}": nil, // the same key
		"{address: a.example, user: dev, labels: {gpu: yes}, slots: 8}":           {"slots: 7 → 8", "labels: gpu=no mine=x → gpu=yes mine=x"},
		"{address: a.example, host_keys: [" + otherKey + "]}":                     {"user: dev → none", "keys: " + print + " → " + fingerprints(&protocol.HostSpec{HostKeys: []string{otherKey}})[0]},
		"{address: b.example, user: dev, known_hosts: /kh}":                       {"address: a.example → b.example", "keys: " + print + " → none", "known_hosts: none → /kh"},
	} {
		im, err := prepared(t, "hosts.yaml", "hosts:\n  a: "+text+"\n", importFlags{})
		if err != nil {
			t.Fatal(err)
		}
		h := im.hosts[0]
		h.old = &there
		h.keep()
		if got := h.changes(); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	// Another address is another machine, so its key is not known.
	im, err := prepared(t, "hosts.yaml", "hosts:\n  a: {address: b.example}\n", importFlags{})
	if err != nil {
		t.Fatal(err)
	}
	im.hosts[0].old = &there
	if im.hosts[0].keep(); len(im.hosts[0].put.Spec.HostKeys) > 0 {
		t.Error("the key of one address was believed of another")
	}
}

func TestAnExportHasWhatPeopleSaid(t *testing.T) {
	gate := &protocol.HostSpec{Name: "gate", Address: "192.0.2.1", HostKeys: []string{someKey}}
	there := []protocol.HostView{
		{Name: "local", Spec: &protocol.HostSpec{Name: "local"}, Slots: 4},
		{Name: "gate", Spec: gate, Slots: 1},
		{Name: "inner", Spec: &protocol.HostSpec{Name: "inner", Address: "10.0.0.1", KnownHosts: "/kh", Jump: gate}, Slots: 4,
			Labels: map[string]string{"gpu": "no"}, Found: map[string]string{"cpus": "8"}, Codex: "0.169.0"},
		{Name: "other", Spec: &protocol.HostSpec{Name: "other", Address: "10.0.0.2", KnownHosts: "/kh"}, Slots: 4},
	}
	list, lacking := exportedHosts(there, []string{"inner", "nobody"})
	if !slices.Equal(lacking, []string{"nobody"}) {
		t.Errorf("lacking are %q", lacking)
	}
	data, err := inventory.Write(inventory.YAML, list)
	want := "hosts:\n  gate:\n    address: \"192.0.2.1\"\n    slots: 1\n    host_keys:\n      - " + someKey + "\n  inner:\n    address: \"10.0.0.1\"\n    labels: {gpu: \"no\"}\n    slots: 4\n    jump: gate\n    known_hosts: /kh\n"
	if err != nil || string(data) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, data, want)
	}
	if list, _ := exportedHosts(there, nil); len(list) != 3 {
		t.Errorf("all are %+v", list)
	}
}
