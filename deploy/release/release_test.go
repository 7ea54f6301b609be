package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/deploy/internal/programs"
	"fairlead.dev/fairlead/internal/realparts"
)

// built are the programs of `make build` under the names that a release gives them.
func built(t *testing.T) programs.Pair {
	t.Helper()
	realparts.Worker(t)
	dir := t.TempDir()
	pair := programs.Pair{Fairlead: filepath.Join(dir, "fairlead"), Worker: filepath.Join(dir, "fairlead-worker")}
	if err := errors.Join(os.Symlink(realparts.Path(t, "bin", "ctl"), pair.Fairlead), os.Symlink(realparts.Path(t, "bin", "worker"), pair.Worker)); err != nil {
		t.Fatal(err)
	}
	return pair
}

// made makes a release for one platform, and returns its folder. The help is that of the
// programs. A smaller program is packed in their place, since theirs have 130 MB.
func made(t *testing.T, pair programs.Pair) string {
	t.Helper()
	help, err := helpOf(t.Context(), pair.Fairlead)
	if err != nil {
		t.Fatal(err)
	}
	small := realparts.Path(t, "bin", "scriptedmodel")
	pair = programs.Pair{Fairlead: small, Worker: small}
	r := release{version: "v9", at: time.Unix(1_800_000_000, 0), dist: t.TempDir(), help: help, changes: []byte("# Changelog\n")}
	if err := errors.Join(r.pack(programs.Own(), pair), r.finish()); err != nil {
		t.Fatal(err)
	}
	return r.dist
}

// Compiling programs for each platform takes minutes, so that two builds of them are equal is
// tried by hand.
func TestTwoReleasesOfTheSameProgramsAreEqual(t *testing.T) {
	pair := built(t)
	one, two := made(t, pair), made(t, pair)
	var sums [2]string
	for i, dir := range []string{one, two} {
		text, err := os.ReadFile(filepath.Join(dir, sumsFile))
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = string(text)
		check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", sumsFile)
		check.Dir = dir
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("the digests do not hold: %v\n%s", err, out)
		}
	}
	if sums[0] != sums[1] {
		t.Errorf("two releases differ:\n%s\n%s", sums[0], sums[1])
	}
	if n := strings.Count(sums[0], "\n"); n != 3 {
		t.Errorf("%d files have a digest:\n%s", n, sums[0])
	}
}

func TestAnArchiveHasProgramsPagesAndCompletions(t *testing.T) {
	dir := made(t, built(t))
	archives, err := filepath.Glob(filepath.Join(dir, "*.tar.gz"))
	if err != nil || len(archives) != 1 {
		t.Fatalf("%v, %v", archives, err)
	}
	f, err := os.Open(archives[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	modes, texts := map[string]string{}, map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(h.Name, "fairlead-v9/")
		modes[name] = h.FileInfo().Mode().String()
		if !strings.HasPrefix(name, "bin/") {
			text, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			texts[name] = string(text)
		}
	}
	for _, program := range []string{"bin/fairlead", "bin/fairlead-worker"} {
		if modes[program] != "-rwxr-xr-x" {
			t.Errorf("%s has mode %q", program, modes[program])
		}
	}
	for name, has := range map[string]string{
		"share/bash-completion/completions/fairlead":    "__start_fairlead",
		"share/zsh/site-functions/_fairlead":            "#compdef fairlead",
		"share/fish/vendor_completions.d/fairlead.fish": "complete -c fairlead",
		"share/man/man1/fairlead.1":                     `.TH "FAIRLEAD"`,
		"share/man/man1/fairlead-session-start.1":       "fairlead session start",
		"share/man/man1/fairlead-worker.1":              ".TH FAIRLEAD",
		"share/doc/fairlead/CHANGELOG.md":               "# Changelog",
		"lib/systemd/system/fairlead-worker.service":    "ExecStart=/usr/local/bin/fairlead-worker",
		"lib/systemd/system/fairlead-api.service":       "--only api",
		"lib/sysusers.d/fairlead.conf":                  "u fairlead",
	} {
		if !strings.Contains(texts[name], has) {
			t.Errorf("%s does not have %q", name, has)
		}
	}
}

func TestTheManualPageOfTheWorkerNamesItsFlags(t *testing.T) {
	pair := built(t)
	out, _ := exec.CommandContext(t.Context(), pair.Worker, "--help").CombinedOutput()
	flags := regexp.MustCompile(`(?m)^  -([a-z-]+)`).FindAllStringSubmatch(string(out), -1)
	if len(flags) < 4 {
		t.Fatalf("no flags in %s", out)
	}
	page := strings.ReplaceAll(string(workerPage), `\-`, "-")
	for _, f := range flags {
		if !strings.Contains(page, "--"+f[1]) {
			t.Errorf("the page does not name --%s", f[1])
		}
	}
}

func TestATaggedReleaseNeedsItsChanges(t *testing.T) {
	const changes = "# Changelog\n\n## v0.2\n\nx\n"
	for version, ok := range map[string]bool{"v0.2": true, "v0.3": false, "v0": true, "0a1b2c-dirty": true, "v0.2-3-gabc": true} {
		if err := checkChanges(changes, version); (err == nil) != ok {
			t.Errorf("%s: %v", version, err)
		}
	}
}

func TestWhatCannotBeReleasedIsSaid(t *testing.T) {
	for why, args := range map[string][]string{
		"windows/amd64": {"-platforms", "windows/amd64"},
		"CHANGELOG.md":  {"-version", "v9"},
	} {
		if err := run(context.Background(), append(args, "-out", t.TempDir()), io.Discard); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v: %v", args, err)
		}
	}
	if _, err := helpOf(t.Context(), "/bin/false"); err == nil || !strings.Contains(err.Error(), "ask the program for its help") {
		t.Errorf("a program without help: %v", err)
	}
	shells := []string{}
	for _, c := range completions {
		shells = append(shells, c.shell)
	}
	if !slices.Equal(shells, []string{"bash", "zsh", "fish"}) {
		t.Errorf("completions for %v", shells)
	}
}
