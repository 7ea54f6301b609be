package activities

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
)

func (b *bed) root() string {
	b.t.Helper()
	root, err := hostexec.Root(b.t.Context(), b.host(), b.spec)
	if err != nil {
		b.t.Fatal(err)
	}
	return root
}

// provision is ProvisionCodex as the workflow sees it.
func (b *bed) provision() (ProvisionCodexResult, error) {
	return b.set.Hosts.ProvisionCodex(b.t.Context(), ProvisionCodexInput{Host: b.spec})
}

func TestTwoProvisionsAtOnceBothEndWithAGoodTree(t *testing.T) {
	b := newBed(t, farHost(t))
	c := b.another()
	tree, err := b.set.Hosts.Codex.tree(t.Context(), "Linux", machineOf(t))
	if err != nil {
		t.Fatal(err)
	}
	// An earlier upload died after its folder had its name, before the stamp.
	final := path.Join(b.root(), "codex", tree.name())
	b.sh(`mkdir -p "$1/bin" && echo torn >"$1/bin/codex"`, final)

	type end struct {
		out ProvisionCodexResult
		err error
	}
	ends := make(chan end, 2)
	for _, bed := range []*bed{b, c} {
		go func() {
			out, err := bed.provision()
			ends <- end{out, err}
		}()
	}
	for range 2 {
		e := <-ends
		if e.err != nil {
			t.Fatal(e.err)
		}
		if e.out.Path != final+"/bin/codex" || e.out.Version != tree.Version {
			t.Errorf("provisioned %+v", e.out)
		}
	}
	if got := b.sh(`ls -A "${1%/*}"; cd "$1" && find . -type f | sort && bin/codex --version`, final); !strings.Contains(got, "codex-cli "+tree.Version) ||
		strings.Contains(got, ".new-") || strings.Contains(got, ".broken-") {
		t.Errorf("on the host: %s", got)
	}
	for _, f := range tree.Files {
		if got := b.sh(`sha256sum <"$1"`, path.Join(final, f.Path)); !strings.HasPrefix(got, f.Digest) {
			t.Errorf("%s is not as it was sent", f.Path)
		}
	}
	out, err := b.provision()
	if err != nil || out.How != "present" {
		t.Errorf("provisioned again: %+v, %v", out, err)
	}
}

func machineOf(t *testing.T) string {
	t.Helper()
	var u syscall.Utsname
	if err := syscall.Uname(&u); err != nil {
		t.Fatal(err)
	}
	var s []byte
	for _, c := range u.Machine {
		if c == 0 {
			break
		}
		s = append(s, byte(c))
	}
	return string(s)
}

func TestProvisionOnAFullDiskLeavesNothing(t *testing.T) {
	if os.Getuid() != 0 {
		t.Fatal("this test mounts a small disk and must be run as root")
	}
	small, err := os.MkdirTemp("", "fl-small-") // not below t.TempDir, which only we may enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(small) })
	if err := os.Chmod(small, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=120m,mode=0777"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Unmount(small, syscall.MNT_DETACH) })
	root := filepath.Join(small, "root")
	b := newBed(t, hosttest.StartSSHD(t, hosttest.Options{NewUser: true, Root: root}).Spec())
	_, err = b.provision()
	if app := appError(t, err); app.Type() != ErrTypeNoSpace || !app.NonRetryable() {
		t.Errorf("refused as %v", app)
	}
	// The same where df says nothing, and the disk fills on the way.
	tree, err := b.set.Hosts.Codex.tree(t.Context(), "Linux", machineOf(t))
	if err != nil {
		t.Fatal(err)
	}
	err = upload(t.Context(), b.host(), root, tree, machine{FreeKB: -1})
	if app := appError(t, failing{}.failure(t.Context(), "provision", err)); app.Type() != ErrTypeNoSpace {
		t.Errorf("failed as %v", app)
	}
	if got := b.sh(`find "$1" -type f; ls -A "$1/codex" 2>/dev/null || :`, root); got != "" {
		t.Errorf("left on the disk: %s", got)
	}
}

func TestCodexOfTheHostIsUsedOnlyInsideTheWindow(t *testing.T) {
	b := newBed(t, farHost(t))
	deps := b.set.Hosts.Deps
	deps.Codex = nil
	b.set = New(deps)

	_, err := b.provision()
	if app := appError(t, err); app.Type() != ErrTypeCodexMissing || !app.NonRetryable() {
		t.Errorf("without any codex: %v", app)
	}
	b.sh(`mkdir -p "$HOME/.local/bin" && printf '#!/bin/sh\necho codex-cli 0.100.2\n' >"$HOME/.local/bin/codex" && chmod 755 "$HOME/.local/bin/codex"`)
	_, err = b.provision()
	if app := appError(t, err); app.Type() != ErrTypeCodexVersion || !strings.Contains(app.Message(), "0.100.2 is too old") {
		t.Errorf("with an old codex: %v", app)
	}
	b.sh(`printf '#!/bin/sh\necho codex-cli 0.150.1\n' >"$HOME/.local/bin/codex"`)
	out, err := b.provision()
	if err != nil || out.How != "found" || out.Version != "0.150.1" || !strings.HasSuffix(out.Path, "/.local/bin/codex") {
		t.Errorf("with one inside the window: %+v, %v", out, err)
	}
	// Of the version that we know whole, a part is not enough.
	b.sh(`printf '#!/bin/sh\necho codex-cli '"$1"'\n' >"$HOME/.local/bin/codex"`, newestCodex)
	_, err = b.provision()
	if app := appError(t, err); app.Type() != ErrTypeCodexVersion || !strings.Contains(app.Message(), "codex-code-mode-host") {
		t.Errorf("with a part of codex: %v", app)
	}
}

func TestMissingPackageSaysWhatToDo(t *testing.T) {
	b := newBed(t, farHost(t))
	deps := b.set.Hosts.Deps
	deps.Codex = NewCodexSource(filepath.Join(t.TempDir(), "not-there"))
	b.set = New(deps)
	_, err := b.provision()
	app := appError(t, err)
	var p Problem
	if app.Details(&p) != nil || app.Type() != ErrTypeCodexMissing || !strings.Contains(p.Hint, "make tools") || !strings.Contains(p.Message, "not-there") {
		t.Errorf("%v, %+v", app, p)
	}
}

func TestCancelledUploadLeavesNothing(t *testing.T) {
	b := newBed(t, farHost(t))
	tree, err := b.set.Hosts.Codex.tree(t.Context(), "Linux", machineOf(t))
	if err != nil {
		t.Fatal(err)
	}
	root := b.root()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- upload(ctx, b.host(), root, tree, machine{FreeKB: -1}) }()
	await(t, "the first bytes", func() bool {
		return b.sh(`find "$1/codex" -name codex -size +1000 2>/dev/null || :`, root) != ""
	})
	cancel()
	if err := <-done; err == nil {
		t.Error("a cancelled upload succeeded")
	}
	if got := b.sh(`ls -A "$1/codex"`, root); got != "" {
		t.Errorf("left: %s", got)
	}
}
