package e2e

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/scriptedauth"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
)

// The stack that the tests of a package share while Main runs them. Host web-1
// serves root, with spaces, quotes and non-ASCII letters in the name of its
// root folder.
var (
	Lab    *lab.Lab
	Repo   string // the repository's folder
	Root   string // web-1's root folder
	Web1   *hosttest.SSHD
	Issuer *scriptedauth.Server // of logins; the stack's workers use it
)

//go:embed model.yaml
var script []byte

// Main starts the stack, runs the tests of a package and stops the stack. The
// package fails if a secret was seen in the list of processes.
// Under -short it runs no test: each of them needs the stack.
func Main(m *testing.M) { os.Exit(MainWith(m, "", nil)) }

// MainWith is as Main, and returns the code to exit with. config is more of the stack's config file, and prepare is called
// before ctl gives a command to the stack.
func MainWith(m *testing.M, config string, prepare func() error) (code int) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("end-to-end: no test was run: they need real parts, which -short leaves out")
		return 0
	}
	code, err := run(m, config, prepare)
	if err != nil {
		fmt.Fprintf(os.Stderr, "end-to-end: %v\n", err)
		code = 1
	}
	return code
}

func run(m *testing.M, config string, prepare func() error) (code int, err error) {
	if Repo, err = repository(); err != nil {
		return 1, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	Issuer = scriptedauth.New(nil)
	if err := Issuer.Start("127.0.0.1:0"); err != nil {
		return 1, err
	}
	defer Issuer.Close()
	if Lab, err = lab.New(ctx, lab.Options{Repo: Repo, Script: script, Config: fmt.Sprintf("limits: {watch: 1s}\nseeds: {token_endpoint: %q, usage_endpoint: %q}\n%s", Issuer.TokenEndpoint(), Issuer.UsageEndpoint(), config)}); err != nil {
		return 1, err
	}
	watch := lab.WatchProcesses(Lab.Token)
	defer func() {
		seen, samples := watch.Stop()
		if len(seen) > 0 || samples == 0 {
			err = fmt.Errorf("the seed's secret was seen in %s (%d samples)", strings.Join(seen, ", "), samples)
		}
		if cerr := Lab.Close(); err == nil {
			err = cerr
		}
	}()
	if prepare != nil {
		if err := prepare(); err != nil {
			return 1, err
		}
	}
	Root = filepath.Join(Lab.Dir, "it's a hôst")
	if Web1, err = Lab.AddHost(ctx, "web-1", hosttest.Options{Root: Root}); err != nil {
		return 1, err
	}
	if err := Lab.ImportSeed(ctx, "team"); err != nil {
		return 1, err
	}
	if _, err := Lab.Out(ctx, "host", "provision", "web-1"); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// Scripted replaces the model's script until the test ends.
func Scripted(t *testing.T, text string) {
	t.Helper()
	set := func(text []byte) {
		t.Helper()
		next, err := scriptedmodel.Parse(text)
		if err == nil {
			err = Lab.Model.SetScript(next)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	set([]byte(text))
	t.Cleanup(func() { set(script) })
}

// repository returns the folder with go.mod above the working directory.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("the tests run outside of the repository")
}
