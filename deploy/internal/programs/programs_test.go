package programs

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestPlatformsAreThoseOfReleases(t *testing.T) {
	got, err := Parse("linux/arm64, darwin/amd64 linux/arm64")
	if err != nil || !slices.Equal(got, []Platform{{"linux", "arm64"}, {"darwin", "amd64"}}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"", "windows/amd64", "linux", "linux/amd64/v3"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
	for p, codex := range map[Platform]string{{"linux", "amd64"}: "linux-x64", {"darwin", "arm64"}: "darwin-arm64"} {
		if p.Codex() != codex {
			t.Errorf("codex for %s is %s", p, p.Codex())
		}
	}
}

func TestAVersionThatWouldBeAFlagIsRefused(t *testing.T) {
	for _, version := range []string{"", "v1 -X main.x=y", "-v"} {
		if _, err := Build(context.Background(), t.TempDir(), version, Own()); err == nil || !strings.Contains(err.Error(), "a version is of") {
			t.Errorf("%q: %v", version, err)
		}
	}
}

func TestWhatIsNoStaticProgramIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Static(file); err == nil || !strings.Contains(err.Error(), "no program for Linux") {
		t.Errorf("a script: %v", err)
	}
	// The shell of every system that the tests run on is linked to the system's library.
	if err := Static("/bin/sh"); err == nil || !strings.Contains(err.Error(), "not static") {
		t.Errorf("a program that needs a library: %v", err)
	}
}

func TestTheTimeOfAReleaseCanBeStated(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1800000000")
	if at, err := Time(context.Background()); err != nil || at.Unix() != 1_800_000_000 {
		t.Errorf("%s, %v", at, err)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if _, err := Time(context.Background()); err == nil || !strings.Contains(err.Error(), "yesterday") {
		t.Errorf("no number: %v", err)
	}
}
