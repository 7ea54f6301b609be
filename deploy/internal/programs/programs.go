package programs

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Platform is what a program runs on, such as linux/amd64.
type Platform struct{ OS, Arch string }

// All are the platforms that a release has.
var All = []Platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

// Own is the platform of this machine.
func Own() Platform { return Platform{runtime.GOOS, runtime.GOARCH} }

func (p Platform) String() string { return p.OS + "/" + p.Arch }

// Codex is the name of the platform among codex's packages, such as linux-x64.
func (p Platform) Codex() string {
	if p.Arch == "amd64" {
		return p.OS + "-x64"
	}
	return p.OS + "-" + p.Arch
}

// Parse reads names of platforms, separated by spaces or commas.
func Parse(text string) (platforms []Platform, err error) {
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' }) {
		os, arch, _ := strings.Cut(word, "/")
		p := Platform{os, arch}
		if !slices.Contains(All, p) {
			return nil, fmt.Errorf("platform %q: releases are for %v", word, All)
		}
		if !slices.Contains(platforms, p) {
			platforms = append(platforms, p)
		}
	}
	if len(platforms) == 0 {
		return nil, fmt.Errorf("no platform is named: releases are for %v", All)
	}
	return platforms, nil
}

// Pair are the two programs of a platform.
type Pair struct{ Fairlead, Worker string }

var versionPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// Build compiles both programs into a folder. version is what they call themselves. What the
// compiler prints goes to standard error.
func Build(ctx context.Context, dir, version string, p Platform) (Pair, error) {
	made := Pair{filepath.Join(dir, "fairlead"), filepath.Join(dir, "fairlead-worker")}
	doing := fmt.Sprintf("compile %s for %s", version, p)
	if !versionPattern.MatchString(version) {
		return made, fmt.Errorf("%s: a version is of letters, digits, dot, dash and underscore", doing)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return made, fmt.Errorf("%s: %w", doing, err)
	}
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-mod=readonly",
		"-ldflags", "-s -w -X fairlead.dev/fairlead/internal/version.Build="+version,
		"-o", dir+string(filepath.Separator), "fairlead.dev/fairlead/cmd/ctl", "fairlead.dev/fairlead/cmd/worker")
	build.Stderr = os.Stderr
	// Settings of this machine that would change the bytes.
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.OS, "GOARCH="+p.Arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOEXPERIMENT=")
	if err := build.Run(); err != nil {
		return made, fmt.Errorf("%s: %w", doing, err)
	}
	err := errors.Join(os.Rename(filepath.Join(dir, "ctl"), made.Fairlead), os.Rename(filepath.Join(dir, "worker"), made.Worker))
	if p.OS == "linux" && err == nil {
		err = errors.Join(Static(made.Fairlead), Static(made.Worker))
	}
	if err != nil {
		return made, fmt.Errorf("%s: %w", doing, err)
	}
	return made, nil
}

// Static returns an error unless a file is a program for Linux that needs no library.
func Static(file string) error {
	f, err := elf.Open(file)
	if err != nil {
		return fmt.Errorf("%s is no program for Linux: %w", file, err)
	}
	defer f.Close()
	for _, s := range f.Progs {
		if s.Type == elf.PT_INTERP {
			return fmt.Errorf("%s is not static: it was compiled with cgo", file)
		}
	}
	return nil
}

// Version is what git calls the current commit: a tag, a tag and what came after it, or a
// digest; with -dirty if files were changed.
func Version(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "git", "describe", "--tags", "--always", "--dirty").Output()
	if err != nil {
		return "", fmt.Errorf("ask git for the version: %w (-version names one)", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Time is the time that everything in a release has: $SOURCE_DATE_EPOCH, or else that of the
// current commit.
func Time(ctx context.Context) (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		out, err := exec.CommandContext(ctx, "git", "log", "-1", "--format=%ct").Output()
		if err != nil {
			return time.Time{}, fmt.Errorf("ask git for the time of the commit: %w (SOURCE_DATE_EPOCH names one)", err)
		}
		text = strings.TrimSpace(string(out))
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH %q is not a number of seconds", text)
	}
	return time.Unix(seconds, 0).UTC(), nil
}
