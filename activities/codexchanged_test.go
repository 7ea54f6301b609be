package activities

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/activities/codexpkg"
	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

// replaceCodex replaces codex by a program that copies the credential to the file loot. A
// command outside the sandbox could do that.
func (b *bed) replaceCodex(bin string) (loot string) {
	b.t.Helper()
	loot = path.Join(path.Dir(path.Dir(bin)), "..", "..", "loot")
	b.sh(`printf '#!/bin/sh\ncat "$CODEX_HOME/auth.json" >>"%s"\necho "codex-cli $(basename "$1")"\n' "$2" >"$1.new" && chmod 755 "$1.new" && mv "$1.new" "$1"`, bin, loot)
	return loot
}

func TestACodexThatSomebodyReplacedGetsNoSeedAndIsPutBackOnce(t *testing.T) {
	b := newBed(t, farHost(t))
	seed := b.plantable(scriptedmodel.Serve(t, "rules: [{reply: hello}]"))
	there, err := b.provision()
	if err != nil || there.How != "uploaded" {
		t.Fatalf("%+v, %v", there, err)
	}
	in := places.PrepareSessionInput{Claim: protocol.Claim{Session: "victim", Host: b.spec, Generation: 1, Pump: 1}, Seed: seed, Sandbox: "danger-full-access"}
	k := &talk{bed: b, claim: in.Claim, seed: seed}
	loot := b.replaceCodex(there.Path)
	out, err := b.prepare(in)
	if err != nil {
		t.Fatal(err)
	}
	k.layout = out.Layout
	t.Cleanup(k.kill)
	if !strings.Contains(out.CodexRepaired, `"bin/codex"`) || !strings.Contains(out.CodexRepaired, b.spec.Name) {
		t.Errorf("told: %q", out.CodexRepaired)
	}
	if out.Layout.CodexSums == "" {
		t.Error("the layout does not say what codex is to be")
	}
	k.start()
	if got := b.sh(`"$1" --version; cat "$2" 2>/dev/null || echo no loot`, there.Path, loot); !strings.Contains(got, "codex-cli "+there.Version) || !strings.Contains(got, "no loot") {
		t.Errorf("on the host: %s", got)
	}

	b.replaceCodex(there.Path)
	in.Claim.Session = "second"
	_, err = b.prepare(in)
	app := appError(t, err)
	var p protocol.Problem
	if app.Details(&p) != nil || app.Type() != protocol.ErrTypeCodexChanged || !app.NonRetryable() || !strings.Contains(p.Message, "changed again") || !strings.Contains(p.Hint, "ctl host provision") {
		t.Errorf("changed again: %v, hint %q", app, p.Hint)
	}
	if got := b.sh(`find "$1/sessions/second" 2>/dev/null; cat "$2" 2>/dev/null || echo no loot`, out.Layout.Root, loot); got != "no loot\n" {
		t.Errorf("a refused session left: %s", got)
	}
	// A person has looked, and says so.
	if again, err := b.provision(); err != nil || again.How != "repaired" || again.Repaired == "" {
		t.Errorf("provisioned by a person: %+v, %v", again, err)
	}
	if again, err := b.provision(); err != nil || again.How != "present" {
		t.Errorf("provisioned again: %+v, %v", again, err)
	}
}

func TestEachStartOfCodexVerifiesItsWholePackage(t *testing.T) {
	b := newBed(t, readyHost(t))
	k := b.prepared("restarts", "", "danger-full-access", nil)
	dir := path.Dir(path.Dir(k.layout.Codex))
	start := func() (places.StartServerResult, error) {
		k.incarnation++
		return places.StartServer(t.Context(), k.set.Place.Site, places.StartServerInput{Claim: k.next(), Layout: k.layout, Incarnation: k.incarnation}, 1)
	}
	if out, err := start(); err != nil || out.CodexRepaired != "" {
		t.Fatalf("unchanged: %+v, %v", out, err)
	}
	k.kill()
	// codex finds its programs there before those of the host.
	b.sh(`printf '#!/bin/sh\n' >"$1/codex-path/git" && chmod 755 "$1/codex-path/git"`, dir)
	layout := k.layout
	k.layout.CodexSums = "" // of a session of an earlier version
	out, err := start()
	if err != nil || !strings.Contains(out.CodexRepaired, `"codex-path/git"`) {
		t.Fatalf("with a program that was added: %+v, %v", out, err)
	}
	if got := b.sh(`ls "$1/codex-path"`, dir); got != "rg\n" {
		t.Errorf("beside codex: %s", got)
	}
	k.kill()
	k.layout = layout
	b.sh(`: >>"$1/bin/codex-code-mode-host" && echo x >>"$1/bin/codex-code-mode-host"`, dir)
	_, err = start()
	if k.incarnation--; err == nil || !strings.Contains(err.Error(), "changed again") {
		t.Errorf("changed again: %v", err)
	}
	if out, err := b.provision(); err != nil || out.How != "repaired" {
		t.Errorf("provisioned: %+v, %v", out, err)
	}
	// A worker that cannot put it back refuses it.
	b.sh(`echo x >>"$1/codex-path/rg"`, dir)
	other := b.another()
	other.set.site.Codex = codexpkg.NewCodexSource()
	k.incarnation++
	_, err = places.StartServer(t.Context(), other.set.Place.Site, places.StartServerInput{Claim: k.next(), Layout: k.layout, Incarnation: k.incarnation}, 1)
	if k.incarnation--; err == nil || !strings.Contains(err.Error(), "is not what was put there") {
		t.Errorf("a worker without that package: %v", err)
	}
	if out, err := b.provision(); err != nil || out.How != "repaired" {
		t.Errorf("provisioned: %+v, %v", out, err)
	}
}

// The package of these cases is small, and the record of an earlier look is there, so that
// the change has to be seen in what stat says.
func TestAChangeOfCodexIsNoticedHoweverItWasMade(t *testing.T) {
	spec := farHost(t)
	source := smallPackage(t, 1000)
	b := newBed(t, spec)
	b.set.site.Codex = codexpkg.NewCodexSource(source)
	there, err := b.provision()
	if err != nil {
		t.Fatal(err)
	}
	dir := path.Dir(path.Dir(there.Path))
	for _, c := range []struct{ name, change, how string }{
		{"nothing", `:`, "present"},
		{"the time alone", `touch bin/codex`, "present"},
		{"another link to it", `ln bin/codex ../link`, "present"},
		{"the same content in another file", `cp -p bin/codex ../same && mv ../same bin/codex`, "present"},
		{"other content, with the old time", `cp -p bin/codex ../old && echo : >>bin/codex && touch -r ../old bin/codex`, "repaired"},
		{"other content of the same size, with the old time", `cp -p bin/codex ../old && sed -i s/codex-cli/codex-clj/ bin/codex && touch -r ../old bin/codex`, "repaired"},
		{"written through another link", `ln -f ballast ../ballast && echo x >>../ballast`, "repaired"},
		{"a symbolic link to other content", `cp bin/codex ../mine && echo : >>../mine && ln -sf ../../mine bin/codex`, "repaired"},
		{"a symbolic link to the same content", `mv bin/codex ../mine && ln -s ../../mine bin/codex`, "repaired"},
		{"a folder exchanged for a link", `mv bin ../bin && ln -s ../bin bin`, "repaired"},
		{"a file that is gone", `rm ballast`, "repaired"},
		{"a file that was added", `echo x >bin/git`, "repaired"},
		{"a file with a newline in its name", `echo x >"bin/a
b"`, "repaired"},
		{"a FIFO", `mkfifo bin/git`, "repaired"},
	} {
		await(t, "a look that is on record", func() bool {
			out, err := b.provision()
			if err != nil {
				t.Fatal(err)
			}
			b.set.site.Mu.Lock()
			defer b.set.site.Mu.Unlock()
			for _, seen := range b.set.site.CodexSeen {
				return out.How == "present" && seen != ""
			}
			return false
		})
		b.sh(`cd "$1" && `+c.change, dir)
		out, err := b.provision()
		if err != nil || out.How != c.how || (out.Repaired != "") != (c.how == "repaired") {
			t.Errorf("%s: %+v, %v", c.name, out, err)
		}
		if got := b.sh(`"$1"; find "${1%/bin/codex}" ! -type d | wc -l; ls -A "$2" | grep -c '^[.]' || :`, out.Path, path.Dir(dir)); got != "codex-cli "+hosts.NewestCodex+"\n4\n0\n" {
			t.Errorf("%s: afterwards there is: %s", c.name, got)
		}
		b.sh(`cd "$1/.." && rm -rf link same old ballast mine bin`, dir)
	}
}

func TestTheWorkersOwnCodexIsVerifiedInPlace(t *testing.T) {
	source := smallPackage(t, 1000)
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: filepath.Join(t.TempDir(), "root")})
	b.set.site.Codex = codexpkg.NewCodexSource(source)
	if out, err := b.provision(); err != nil || out.How != "present" || out.Sums == "" {
		t.Fatalf("%+v, %v", out, err)
	}
	if err := os.WriteFile(filepath.Join(source, "bin", "codex"), []byte("#!/bin/sh\necho codex-cli "+hosts.NewestCodex+" \n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := b.provision()
	if app := appError(t, err); app.Type() != protocol.ErrTypeCodexChanged || !strings.Contains(app.Message(), `"bin/codex"`) {
		t.Errorf("a changed one: %v", app)
	}
}

func TestASessionOnLocalGoesOnWithTheCodexThatItsWorkerWasUpgradedTo(t *testing.T) {
	source := smallPackage(t, 1000)
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: filepath.Join(t.TempDir(), "root")})
	b.set.site.Codex = codexpkg.NewCodexSource(source)
	there, err := b.provision()
	if err != nil {
		t.Fatal(err)
	}
	layout := protocol.Layout{Root: b.spec.Root, Codex: there.Path, CodexSums: there.Sums}
	bin := filepath.Join(source, "bin", "codex")
	if err := os.WriteFile(bin, []byte("#!/bin/sh\necho codex-cli "+hosts.NewestCodex+" \n"), 0o755); err != nil {
		t.Fatal(err)
	}
	// The worker that runs has read the package, so for it this is a change by somebody else.
	if _, _, err := hosts.GuardCodex(t.Context(), b.set.site, b.host(), b.spec, layout); err == nil || !strings.Contains(err.Error(), "is not what was put there") {
		t.Errorf("changed under a worker: %v", err)
	}
	next := b.another()
	next.set.site.Codex = codexpkg.NewCodexSource(source)
	guard, repaired, err := hosts.GuardCodex(t.Context(), next.set.site, next.host(), next.spec, layout)
	if err != nil || repaired != "" || len(guard.Args) != 3 || guard.Args[1] == there.Sums {
		t.Errorf("with an upgraded worker: %+v, %q, %v", guard, repaired, err)
	}
	if err := os.WriteFile(bin, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, _, err := hosts.GuardCodex(t.Context(), next.set.site, next.host(), next.spec, layout); err == nil || !strings.Contains(err.Error(), "is not what was put there") {
		t.Errorf("changed under the upgraded worker: %v", err)
	}
}
