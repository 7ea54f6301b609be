package hostexec

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"fairlead.dev/fairlead/internal/protocol"
)

// shells are the shells that are /bin/sh on some system.
var shells = [][]string{{"dash"}, {"bash", "--posix"}, {"busybox", "sh"}, {"mksh"}}

func runLine(t testing.TB, shell []string, line, rest string) (string, error) {
	t.Helper()
	cmd := exec.Command(shell[0], append(shell[1:len(shell):len(shell)], "-c", bootstrapScript)...)
	cmd.Stdin = strings.NewReader(line + rest)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if errors.Is(err, exec.ErrNotFound) {
		t.Fatalf("%s is not installed: run `make tools`", shell[0])
	}
	return string(out), err
}

func FuzzQuotedWordsArriveUnchanged(f *testing.F) {
	for _, s := range []string{"", "a b", "'", "\n", "\n\n'\n", `\`, "$(id)", "`id`", "\r\n\t", "-n", "é\xff\x81\x88\x01\x7f", "a\\", "!x", "~", "*", "\x80\x82\x83"} {
		f.Add(s, s+"x")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if strings.ContainsRune(a, 0) || strings.ContainsRune(b, 0) {
			t.Skip("no shell carries NUL; check refuses it")
		}
		c := Command{Script: `cat; echo; echo "$1.$2.$#.$FL_TEST."`, Args: []string{a, b}, Env: map[string]string{"FL_TEST": a}}
		c.Script = `cat; command printf '%s.%s.%s.%s.' "$1" "$2" "$#" "$FL_TEST"`
		for _, sh := range shells {
			out, err := runLine(t, sh, streamLine("M", c), "input\n")
			want := "\nM b\ninput\n" + a + "." + b + ".2." + a + "."
			if err != nil || out != want {
				t.Fatalf("%v: got %q, %v; want %q", sh, out, err, want)
			}
		}
	})
}

func TestEveryCutOfALineRunsNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("runs hundreds of shells")
	}
	dir := t.TempDir()
	c := Command{Script: `echo x >>"$1/ran"; echo y`, Args: []string{dir}, Stdin: []byte("in")}
	for _, line := range []string{streamLine("M", c), requestLine("M", c), onceLine("M", c)} {
		whole := strings.TrimSuffix(line, "\n")
		for i := range len(whole) {
			runLine(t, shells[0], whole[:i], "")
		}
		if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
			t.Fatalf("a line that was cut off ran:\n%s", line)
		}
	}
}

func TestCommandsThatNoShellCanCarryAreRefused(t *testing.T) {
	h := newLocalHost(protocol.LocalHost)
	defer h.Close()
	for _, c := range []Command{
		{},
		{Script: "a\x00b"},
		{Script: "true", Args: []string{"a\x00"}},
		{Script: "true", Env: map[string]string{"A B": ""}},
		{Script: "true", Env: map[string]string{"A": "\x00"}},
		{Script: "true", Fence: &Fence{Dir: "relative"}},
		{Script: "true", Fence: &Fence{Dir: "/"}},
		{Script: "true", Fence: &Fence{Dir: "/tmp/x", Epoch: Epoch{Pump: -1}}},
		{Script: "true", Fence: &Fence{Dir: "/tmp/x", Epoch: Epoch{Pump: 1 << 31}}},
	} {
		if _, err := h.Run(context.Background(), c); err == nil {
			t.Errorf("%+v: no error", c)
		}
		if _, err := h.Start(context.Background(), c); err == nil {
			t.Errorf("%+v: no error from Start", c)
		}
	}
}

func TestFenceOrdersEpochs(t *testing.T) {
	if testing.Short() {
		t.Skip("runs hundreds of shells")
	}
	for _, sh := range shells {
		for _, tool := range []string{"flock", "symlink"} {
			t.Run(sh[0]+"/"+tool, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "it's a dir\né")
				env := map[string]string{}
				if tool == "symlink" {
					env["PATH"] = pathWithout(t, "flock")
				}
				run := func(e Epoch) error {
					c := Command{Script: "echo ran", Fence: &Fence{Dir: dir, Epoch: e}}
					line := onceLine("M", c)
					cmd := exec.Command(mustLook(t, sh[0]), append(sh[1:len(sh):len(sh)], "-c", bootstrapScript)...)
					if p := env["PATH"]; p != "" {
						cmd.Env = []string{"PATH=" + p}
					}
					cmd.Stdin = strings.NewReader(line)
					var out, errb bytes.Buffer
					cmd.Stdout, cmd.Stderr = &out, &errb
					if err := cmd.Run(); err != nil {
						t.Fatal(err, errb.String())
					}
					if strings.Contains(out.String(), "\nran\n\nM e 0\n") {
						return nil
					}
					if strings.Contains(out.String(), "\nran\n") {
						t.Fatalf("ran and failed: %s", out.String())
					}
					if err := fenceError(fenceRefused, errb.Bytes()); err != nil {
						return err
					}
					t.Fatalf("neither ran nor refused: %s%s", out.String(), errb.String())
					return nil
				}
				steps := []struct {
					e  Epoch
					ok bool
				}{
					{Epoch{1, 2, 3}, true}, {Epoch{1, 2, 3}, true}, {Epoch{1, 2, 2}, false}, {Epoch{1, 1, 9}, false},
					{Epoch{0, 9, 9}, false}, {Epoch{1, 2, 4}, true}, {Epoch{1, 3, 0}, true}, {Epoch{2, 0, 0}, true},
					{Epoch{1, 3, 0}, false}, {Epoch{2, 0, 0}, true}, {Epoch{1<<31 - 1, 0, 0}, true}, {Epoch{1 << 30, 0, 0}, false},
				}
				highest := Epoch{}
				for _, s := range steps {
					err := run(s.e)
					if s.ok {
						highest = s.e
						if err != nil {
							t.Fatalf("%v: %v", s.e, err)
						}
						continue
					}
					var fenced *FencedError
					if !errors.As(err, &fenced) || fenced.Host != highest || fenced.Ours != s.e {
						t.Fatalf("%v: got %v, want a refusal that names %v", s.e, err, highest)
					}
				}
				left, _ := os.ReadFile(filepath.Join(dir, "epoch"))
				if string(left) != "2147483647 0 0\n" {
					t.Fatalf("epoch file: %q", left)
				}
			})
		}
	}
}

func mustLook(t *testing.T, name string) string {
	p, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%v: run `make tools`", err)
	}
	return p
}

// pathWithout returns a PATH with all programs that the fence may use, except one.
func pathWithout(t *testing.T, without string) string {
	dir := t.TempDir()
	for _, n := range []string{"mkdir", "sleep", "ln", "readlink", "find", "rm", "rmdir", "mv", "cat", "flock"} {
		if n != without {
			if err := os.Symlink(mustLook(t, n), filepath.Join(dir, n)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

func TestFenceLockExcludesAndSurvivesAKilledHolder(t *testing.T) {
	if testing.Short() {
		t.Skip("runs hundreds of shells")
	}
	for _, tool := range []string{"flock", "symlink"} {
		t.Run(tool, func(t *testing.T) {
			dir := t.TempDir()
			path := os.Getenv("PATH")
			if tool == "symlink" {
				path = pathWithout(t, "flock")
			}
			start := func(script string) *exec.Cmd {
				f := Fence{Dir: dir}
				cmd := exec.Command("/bin/sh", "-c", bootstrapScript)
				cmd.Env = []string{"PATH=" + path}
				cmd.Stdin = strings.NewReader(streamLine("M", Command{Script: fencePrologue(f) + "\n" + script}))
				return cmd
			}
			// The counter is right at the end only if the holders exclude each other.
			counter := filepath.Join(dir, "n")
			if err := os.WriteFile(counter, []byte("0\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					if err := start(`read -r n <"$fl_d/n"; sleep 0.005; echo $((n+1)) >"$fl_d/n"; fl_unlock`).Run(); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if b, _ := os.ReadFile(counter); string(b) != "20\n" {
				t.Fatalf("counter is %q after 20 increments", b)
			}
			// The holder dies without releasing the lock.
			if err := start(`kill -9 $$`).Run(); err == nil {
				t.Fatal("the holder survived kill -9")
			}
			if err := start(`fl_unlock; echo done`).Run(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
