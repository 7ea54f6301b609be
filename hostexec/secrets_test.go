package hostexec_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/protocol"
)

// look searches the command lines and environments of every process of this machine until
// ctx ends, and returns the file in which each secret was seen. It counts its searches in
// looks, and the searches that found a secret in hits.
func look(ctx context.Context, secrets map[string]string, looks, hits *atomic.Int64) (seen map[string]string) {
	seen = map[string]string{}
	for ; ctx.Err() == nil || looks.Load() == 0; looks.Add(1) {
		hit := false
		files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		environs, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, f := range append(files, environs...) {
			text, _ := os.ReadFile(f)
			for name, secret := range secrets {
				if bytes.Contains(text, []byte(secret)) {
					seen[name+" in "+filepath.Base(f)] = f
					hit = true
				}
			}
		}
		if hit {
			hits.Add(1)
		}
	}
	return seen
}

// TestSecretsAreInNoProcessListing checks that script, arguments, environment and input of
// a command are in no argv and in no environment. There is one intended exception: Env is
// in the environment of the command's own children.
func TestSecretsAreInNoProcessListing(t *testing.T) {
	t.Parallel()
	s := hosttest.StartSSHD(t, hosttest.Options{NewUser: true})
	local := protocol.HostSpec{Name: protocol.LocalHost}
	for _, spec := range []protocol.HostSpec{s.Spec(), local} {
		h := newHost(t, spec)
		dir, err := hostexec.Root(t.Context(), h, protocol.HostSpec{Root: "~/secrets-" + rand.Text()})
		if err != nil {
			t.Fatal(err)
		}
		secrets := map[string]string{}
		for _, name := range []string{"argument", "value", "input", "file", "script", "upload"} {
			secrets[name] = "sk-" + name + "-" + rand.Text()
		}
		watched := filepath.Join(os.TempDir(), "watched-"+rand.Text())
		t.Cleanup(func() { os.Remove(watched) })
		ctx, cancel := context.WithCancel(t.Context())
		var seen map[string]string
		var looks, hits atomic.Int64
		var watcher, work sync.WaitGroup
		watcher.Go(func() { seen = look(ctx, secrets, &looks, &hits) })

		// The script starts children and runs until the file exists.
		c := hostexec.Command{
			Script: "cat >/dev/null; : " + secrets["script"] + `; sleep 600 & until [ -e '` + watched + `' ]; do sleep 0.01; test -n "$1"; done; kill $!`,
			Args:   []string{secrets["argument"]},
			Env:    map[string]string{"FL_TEST_TOKEN": secrets["value"]},
		}
		run := c
		run.Stdin = []byte(secrets["input"])
		bulk := run
		bulk.Bulk = true
		for _, c := range []hostexec.Command{run, bulk} {
			work.Go(func() {
				if _, err := h.Run(ctx, c); err != nil {
					t.Error(err)
				}
			})
		}
		work.Go(func() {
			st, err := h.Start(ctx, c)
			if err == nil {
				fmt.Fprintln(st, secrets["input"])
				st.CloseWrite()
				err = st.Wait()
			}
			if err != nil {
				t.Error(err)
			}
		})
		for range 10 {
			f := &hostexec.Fence{Dir: dir, Epoch: hostexec.Epoch{Pump: 1}}
			if err := hostexec.WriteFile(ctx, h, dir+"/home/auth.json", []byte(secrets["file"]), 0o600, f); err != nil {
				t.Error(err)
			}
			big := append(bytes.Repeat([]byte("x"), 100_000), secrets["upload"]...)
			if err := hostexec.WriteFile(ctx, h, dir+"/home/big", big, 0o600, f); err != nil {
				t.Error(err)
			}
		}
		before := looks.Load()
		until(t, "the watcher looked at running commands", func() bool { return hits.Load() > 2 && looks.Load() > before+2 })
		if err := os.WriteFile(watched, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		work.Wait()
		cancel()
		watcher.Wait()
		if _, ok := seen["value in environ"]; !ok {
			t.Errorf("%s: in %d looks the command's own children were never seen: the watcher sees nothing", spec.Name, looks.Load())
		}
		delete(seen, "value in environ")
		for what, where := range seen {
			t.Errorf("%s: %s of %s", spec.Name, what, where)
		}
		if err := hostexec.RemoveTree(t.Context(), h, dir, filepath.Dir(dir), nil); err != nil {
			t.Error(err)
		}
	}
}
