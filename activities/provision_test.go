package activities

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/codexpkg"
	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/realparts"
)

func (b *bed) root() string {
	b.t.Helper()
	root, err := hostexec.Root(b.t.Context(), b.host(), b.spec)
	if err != nil {
		b.t.Fatal(err)
	}
	return root
}

// provision calls ProvisionCodex as the workflow does.
func (b *bed) provision() (protocol.ProvisionCodexResult, error) {
	return b.set.Host.ProvisionCodex(b.t.Context(), hosts.ProvisionCodexInput{Host: b.spec})
}

func TestTwoProvisionsAtOnceBothEndWithAGoodTree(t *testing.T) {
	b := newBed(t, farHost(t))
	c := b.another()
	tree, err := b.set.site.Codex.Tree(t.Context(), "Linux", machineOf(t))
	if err != nil {
		t.Fatal(err)
	}
	// An earlier upload died after its folder was renamed and before the stamp was
	// written.
	final := path.Join(b.root(), "codex", tree.Name())
	b.sh(`mkdir -p "$1/bin" && echo torn >"$1/bin/codex"`, final)

	type end struct {
		out protocol.ProvisionCodexResult
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
	small, err := os.MkdirTemp("", "fl-small-") // not below t.TempDir, which only this user may enter
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
	if app := appError(t, err); app.Type() != protocol.ErrTypeNoSpace || !app.NonRetryable() {
		t.Errorf("refused as %v", app)
	}
	// The same holds if df reports nothing and the disk fills during the upload.
	tree, err := b.set.site.Codex.Tree(t.Context(), "Linux", machineOf(t))
	if err != nil {
		t.Fatal(err)
	}
	err = hosts.Upload(t.Context(), b.host(), root, tree, hosts.Machine{FreeKB: -1})
	if app := appError(t, kit.Failing{}.Failure(t.Context(), "provision", err)); app.Type() != protocol.ErrTypeNoSpace {
		t.Errorf("failed as %v", app)
	}
	if got := b.sh(`find "$1" -type f; ls -A "$1/codex" 2>/dev/null || :`, root); got != "" {
		t.Errorf("left on the disk: %s", got)
	}
}

func TestCodexOfTheHostIsUsedOnlyInsideTheWindow(t *testing.T) {
	b := newBed(t, farHost(t))
	deps := b.set.site.Deps
	deps.Codex = nil
	b.set = New(deps)

	_, err := b.provision()
	if app := appError(t, err); app.Type() != protocol.ErrTypeCodexMissing || !app.NonRetryable() {
		t.Errorf("without any codex: %v", app)
	}
	b.sh(`mkdir -p "$HOME/.local/bin" && printf '#!/bin/sh\necho codex-cli 0.100.2\n' >"$HOME/.local/bin/codex" && chmod 755 "$HOME/.local/bin/codex"`)
	_, err = b.provision()
	if app := appError(t, err); app.Type() != protocol.ErrTypeCodexVersion || !strings.Contains(app.Message(), "0.100.2 is too old") {
		t.Errorf("with an old codex: %v", app)
	}
	b.sh(`printf '#!/bin/sh\necho codex-cli 0.150.1\n' >"$HOME/.local/bin/codex"`)
	out, err := b.provision()
	if err != nil || out.How != "found" || out.Version != "0.150.1" || !strings.HasSuffix(out.Path, "/.local/bin/codex") {
		t.Errorf("with one inside the window: %+v, %v", out, err)
	}
	// All files of the tested version are known, and some of them are not enough.
	b.sh(`printf '#!/bin/sh\necho codex-cli '"$1"'\n' >"$HOME/.local/bin/codex"`, hosts.NewestCodex)
	_, err = b.provision()
	if app := appError(t, err); app.Type() != protocol.ErrTypeCodexVersion || !strings.Contains(app.Message(), "codex-code-mode-host") {
		t.Errorf("with a part of codex: %v", app)
	}
}

func TestMissingPackageSaysWhatToDo(t *testing.T) {
	b := newBed(t, farHost(t))
	deps := b.set.site.Deps
	deps.Codex = codexpkg.NewCodexSource(filepath.Join(t.TempDir(), "not-there"))
	b.set = New(deps)
	_, err := b.provision()
	app := appError(t, err)
	var p protocol.Problem
	if app.Details(&p) != nil || app.Type() != protocol.ErrTypeCodexMissing || !strings.Contains(p.Hint, "make tools") || !strings.Contains(p.Message, "not-there") {
		t.Errorf("%v, %+v", app, p)
	}
}

func TestCancelledUploadLeavesNothing(t *testing.T) {
	b := newBed(t, farHost(t))
	tree, err := b.set.site.Codex.Tree(t.Context(), "Linux", machineOf(t))
	if err != nil {
		t.Fatal(err)
	}
	root := b.root()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- hosts.Upload(ctx, b.host(), root, tree, hosts.Machine{FreeKB: -1}) }()
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

// smallPackage makes a codex package of the given size that reports its version.
func smallPackage(t *testing.T, bytes int) string {
	t.Helper()
	dir := t.TempDir()
	about := fmt.Sprintf(`{"version":%q,"target":"%s-unknown-linux-musl"}`, hosts.NewestCodex, machineOf(t))
	ballast := make([]byte, bytes)
	rand.NewChaCha8([32]byte{}).Read(ballast)
	err := errors.Join(
		os.Mkdir(dir+"/bin", 0o755),
		os.WriteFile(dir+"/codex-package.json", []byte(about), 0o644),
		os.WriteFile(dir+"/bin/codex", []byte("#!/bin/sh\necho codex-cli "+hosts.NewestCodex+"\n"), 0o755),
		os.WriteFile(dir+"/ballast", ballast, 0o644))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestAProvisionThatWasCutGoesOnWhereItStopped(t *testing.T) {
	realparts.NotShort(t)
	line, err := hosttest.NewDelayLine(t.Context(), 10*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { line.Close() })
	b := newBed(t, hosttest.StartSSHD(t, hosttest.Options{Behind: line}).Spec())
	deps := b.set.site.Deps
	const size = 800 << 10
	deps.Codex = codexpkg.NewCodexSource(smallPackage(t, size))
	b.set = New(deps)
	root := b.root()
	line.SetRate(100 << 10)

	ended := make(chan error, 1)
	go func() {
		_, err := b.provision()
		ended <- err
	}()
	there := func() (n int64) {
		parts, _ := filepath.Glob(root + "/codex/.parts-*/part-*")
		for _, p := range parts {
			if fi, err := os.Stat(p); err == nil {
				n += fi.Size()
			}
		}
		return n
	}
	await(t, "half of it", func() bool { return there() > size/2 })
	if line.Reset() == 0 {
		t.Error("no connection was cut")
	}
	if err := <-ended; err == nil {
		t.Fatal("provisioned over a connection that was cut")
	}
	meter, err := hosttest.MeterPort(t.Context(), b.spec.Port)
	if err != nil {
		t.Fatal(err)
	}
	defer meter.Close()
	out, err := b.provision()
	if err != nil || out.How != "uploaded" {
		t.Fatalf("%+v, %v", out, err)
	}
	if sent, err := meter.Bytes(t.Context()); err != nil || sent > size*3/4 {
		t.Errorf("%d bytes travelled for the rest of %d, %v", sent, size, err)
	}
	if got := b.sh(`ls -A "$1/codex"`, root); strings.Contains(got, ".parts-") || strings.Contains(got, ".new-") {
		t.Errorf("left: %s", got)
	}
}

// The next provision removes files that dead provisions left beside codex. It keeps
// younger files, because they may belong to a provision that still runs.
func TestWhatDeadProvisionsLeftIsRemoved(t *testing.T) {
	base := filepath.Join(t.TempDir(), "codex")
	h := newBed(t, protocol.HostSpec{Name: protocol.LocalHost}).host()
	temp := filepath.Join(base, ".new-mine")
	if err := os.MkdirAll(filepath.Join(temp, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	script := []byte("#!/bin/sh\necho codex-cli 9.9.9\n")
	if err := os.WriteFile(filepath.Join(temp, "bin", "codex"), script, 0o755); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-3 * 24 * time.Hour)
	var want []string
	for _, name := range []string{".new-dead", ".fl-tree-DEAD", ".broken-.new-dead-1", ".parts-9.9.8-abc", "9.9.8-abc"} {
		for _, at := range []time.Time{old, time.Now()} {
			if at != old {
				name += "-young"
			}
			dir := filepath.Join(base, name)
			if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(dir, at, at); err != nil {
				t.Fatal(err)
			}
			// Parts of an unfinished upload are kept for longer, and complete trees for
			// ever.
			if at != old || strings.HasPrefix(name, ".parts-") || !strings.HasPrefix(name, ".") {
				want = append(want, name)
			}
		}
	}
	tree := &codexpkg.CodexTree{Version: "9.9.9", Digest: "0123456789abcdef", Target: "x"}
	sum := sha256.Sum256(script)
	tree.Files = append(tree.Files, codexpkg.CodexFile{Path: "bin/codex", Digest: hex.EncodeToString(sum[:])})
	if err := hosts.Settle(t.Context(), h, base, temp, "", tree); err != nil {
		t.Fatal(err)
	}
	want = append(want, tree.Name())
	slices.Sort(want)
	var got []string
	entries, err := os.ReadDir(base)
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if slices.Sort(got); err != nil || !slices.Equal(got, want) {
		t.Errorf("there is %q, %v; want %q", got, err, want)
	}
}

// Whatever tool of the host verifies digests: nothing is verified without one.
func TestATreeWithoutDigestsIsNotPutIntoPlace(t *testing.T) {
	base := filepath.Join(t.TempDir(), "codex")
	temp := filepath.Join(base, ".new-mine")
	if err := os.MkdirAll(filepath.Join(temp, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(temp, "bin", "codex"), []byte("#!/bin/sh\necho codex-cli 9.9.9\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	tree := &codexpkg.CodexTree{Version: "9.9.9", Digest: "0123456789abcdef", Target: "x"}
	err := hosts.Settle(t.Context(), newBed(t, protocol.HostSpec{Name: protocol.LocalHost}).host(), base, temp, "", tree)
	if err == nil || !strings.Contains(err.Error(), "what arrived is not what was sent") {
		t.Errorf("it is in place: %v", err)
	}
	if _, err := os.Stat(filepath.Join(base, tree.Name())); !os.IsNotExist(err) {
		t.Errorf("it is in place: %v", err)
	}
}
