package main

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"fairlead.dev/fairlead/deploy/internal/bom"
	"fairlead.dev/fairlead/deploy/internal/programs"
	"fairlead.dev/fairlead/internal/realparts"
)

// real is an image of `make image`, in place of one with the programs of `make build`.
var real = flag.String("layout", "", "run the worker of this image `layout`, with static programs and the real codex")

// built are programs of `make build`.
func built(t *testing.T) programs.Pair {
	t.Helper()
	return programs.Pair{Fairlead: realparts.Path(t, "bin", "ctl"), Worker: realparts.Worker(t)}
}

// made makes an image of programs with a codex of two files, and returns its layout and its
// digest. The real codex has 400 MB, and static programs take minutes.
func made(t *testing.T, pair programs.Pair) (dir string, digest v1.Hash) {
	t.Helper()
	codex := t.TempDir()
	err := errors.Join(os.Mkdir(filepath.Join(codex, "bin"), 0o755),
		os.WriteFile(filepath.Join(codex, "bin", "codex"), []byte("#!/bin/sh\n"), 0o755),
		os.WriteFile(filepath.Join(codex, "codex-package.json"), []byte(`{"version":"0.169.0"}`), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	pkg, err := bom.Codex(realparts.Path(t, lockFile), "linux-x64")
	if err != nil {
		t.Fatal(err)
	}
	b := builder{version: "v9", at: time.Unix(1_800_000_000, 0).UTC(), codex: []tree{{"linux-x64", codex, pkg}}, work: t.TempDir()}
	if err := b.add(programs.Own(), pair); err != nil {
		t.Fatal(err)
	}
	dist := t.TempDir()
	if digest, err = b.write(dist); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dist, "fairlead_v9_image"), digest
}

// imageOf returns the image of a layout for this machine.
func imageOf(t *testing.T, dir string) (v1.ImageIndex, v1.Image) {
	t.Helper()
	outer, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := outer.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("the layout has %+v (%v)", manifest, err)
	}
	index, err := outer.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	platforms, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	own := programs.Own()
	for _, m := range platforms.Manifests {
		if m.Platform != nil && m.Platform.OS == own.OS && m.Platform.Architecture == own.Arch {
			image, err := index.Image(m.Digest)
			if err != nil {
				t.Fatal(err)
			}
			return index, image
		}
	}
	t.Fatalf("the layout has no image for %s", own)
	return nil, nil
}

func TestTwoImagesOfTheSameContentAreEqual(t *testing.T) {
	built(t)
	small := realparts.Path(t, "bin", "scriptedmodel") // the programs have 130 MB
	pair := programs.Pair{Fairlead: small, Worker: small}
	one, first := made(t, pair)
	two, second := made(t, pair)
	if first != second {
		t.Errorf("their digests are %s and %s", first, second)
	}
	if out, err := exec.CommandContext(t.Context(), "cmp", one+".tar", two+".tar").CombinedOutput(); err != nil {
		t.Errorf("their archives differ: %s", out)
	}
}

func TestAnImageIsValidAndSaysWhatItIsMadeOf(t *testing.T) {
	dir, digest := made(t, built(t))
	index, image := imageOf(t, dir)
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	if is, err := index.Digest(); err != nil || is != digest {
		t.Errorf("the digest is %s, not %s (%v)", is, digest, err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if c := config.Config; c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/usr/bin/fairlead-worker"}) || c.Labels["org.opencontainers.image.version"] != "v9" {
		t.Errorf("it is run as %+v", c)
	}
	root := unpack(t, image)
	text, err := os.ReadFile(filepath.Join(root, "usr/share/fairlead/image.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	beside, err := os.ReadFile(dir + "_" + programs.Own().Arch + ".cdx.json")
	if err != nil || string(beside) != string(text) {
		t.Errorf("the bill beside the image is another one (%v)", err)
	}
	var bill struct{ Components []struct{ PURL string } }
	if err := json.Unmarshal(text, &bill); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"pkg:golang/go.temporal.io/sdk@", "codex@0.", "pkg:golang/" + rootsPath} {
		if !slices.ContainsFunc(bill.Components, func(c struct{ PURL string }) bool { return strings.Contains(c.PURL, want) }) {
			t.Errorf("the bill does not have %s", want)
		}
	}
}

func TestAnImageTrustsTheUsualAuthorities(t *testing.T) {
	pool := x509.NewCertPool()
	text := authorities()
	if !pool.AppendCertsFromPEM([]byte(text)) {
		t.Fatal("there is none")
	}
	if n := strings.Count(text, "BEGIN CERTIFICATE"); n < 80 {
		t.Errorf("only %d authorities", n)
	}
}

func TestAnImageWithoutItsPartsIsRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	for why, args := range map[string][]string{
		"images are for linux":                  {"-platforms", "darwin/arm64"},
		"names no platform":                     {"-codex", " "},
		"make platforms PLATFORMS=darwin-arm64": {"-codex", "darwin-arm64"},
	} {
		t.Setenv("SOURCE_DATE_EPOCH", "1800000000")
		if err := run(t.Context(), append(args, "-version", "v9"), io.Discard); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v: %v", args, err)
		}
	}
}
