package hosttest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"testing"

	"fairlead.dev/fairlead/hostexec"
)

// odd are words that shells tend to change.
var odd = []string{"", " ", "a b", "'", `"`, "\n", "a\n", `\`, `\\`, "$HOME", "`id`", "$(id)", "!x", "~", "*", "-n", "é ü 漢", "\r", "\t", "\x01\x7f", "\xff\xfe", "a'b\"c"}

var runChecks = []check{
	{"RunGivesScriptItsArguments", func(t *testing.T, h target) {
		got := h.run(t, hostexec.Command{Script: `echo $#; for a; do printf '[%s]' "$a"; done`, Args: odd})
		want := fmt.Sprintf("%d\n[%s]", len(odd), strings.Join(odd, "]["))
		if got != want {
			t.Errorf("got %q\nwant %q", got, want)
		}
	}},
	{"RunExportsEnvironment", func(t *testing.T, h target) {
		for _, v := range odd {
			c := hostexec.Command{Script: `sh -c 'printf "[%s]" "$FL_TEST_VALUE"'`, Env: map[string]string{"FL_TEST_VALUE": v}}
			if got := h.run(t, c); got != "["+v+"]" {
				t.Errorf("%q arrived as %q", v, got)
			}
		}
	}},
	{"RunFeedsInput", func(t *testing.T, h target) {
		big := make([]byte, 3<<20)
		rand.Read(big)
		for _, in := range [][]byte{nil, []byte("x"), []byte("a\x00b\n"), big[:1000], big[:70_000], big} {
			if got := h.run(t, hostexec.Command{Script: "cat", Stdin: in}); got != string(in) {
				t.Errorf("%d bytes of input came back as %d other bytes", len(in), len(got))
			}
		}
		// The script ends even if it does not read its input.
		for _, in := range [][]byte{[]byte("x"), big[:20_000], big} {
			h.run(t, hostexec.Command{Script: ":", Stdin: in})
		}
	}},
	{"RunReturnsOutputUnchanged", func(t *testing.T, h target) {
		for _, out := range []string{"", "\n", "x", "x\n", "\n\nx\n\n", "a\x00b", "fl-"} {
			res, err := h.Run(h.ctx, hostexec.Command{Script: `printf '%b' "$1"; printf '%b' "$1" >&2`,
				Args: []string{strings.ReplaceAll(strings.ReplaceAll(out, "\n", `\n`), "\x00", `\0`)}})
			if err != nil || string(res.Stdout) != out || string(res.Stderr) != out {
				t.Errorf("%q: stdout %q, stderr %q, %v", out, res.Stdout, res.Stderr, err)
			}
		}
	}},
	{"RunTellsHowACommandFailed", func(t *testing.T, h target) {
		for script, code := range map[string]int{
			"echo why >&2; exit 3": 3, "echo why >&2; false": 1, "echo why >&2; sh -c 'kill -TERM $$'": 143,
			"echo why >&2; exec no-such-program-here": 127, "echo why >&2; set -e; false; exit 9": 1,
		} {
			_, err := h.Run(h.ctx, hostexec.Command{Script: script})
			var exit *hostexec.ExitError
			if !errors.As(err, &exit) || exit.Code != code || !strings.HasPrefix(string(exit.Stderr), "why\n") {
				t.Errorf("%s: %v", script, err)
			}
		}
		var exit *hostexec.ExitError
		if _, err := h.Run(h.ctx, hostexec.Command{Script: "if then fi ("}); !errors.As(err, &exit) || exit.Code == 0 {
			t.Errorf("a syntax error: %v", err)
		}
	}},
	{"RunSurvivesScriptsThatKillTheirShell", func(t *testing.T, h target) {
		for range 25 {
			_, err := h.Run(h.ctx, hostexec.Command{Script: "kill -KILL $$; exec cat /dev/null"})
			if !errors.Is(err, hostexec.ErrOutcomeUnknown) {
				t.Errorf("a script that killed its shell: %v", err)
			}
			if got := h.run(t, hostexec.Command{Script: "echo alive"}); got != "alive\n" {
				t.Errorf("the next one: %q", got)
			}
		}
	}},
	{"RunLeavesNothingForTheNext", func(t *testing.T, h target) {
		for range 6 {
			h.run(t, hostexec.Command{Script: `x=1 IFS=x n=2 _n=3; cd /; umask 000; set -u; export FL_LEFT=1; trap : EXIT; f() { :; }; exec 3>&1; exit 0`})
			got := h.run(t, hostexec.Command{Script: `echo "${x-}${FL_LEFT-}$#"; set -- a b; echo "$*"; umask`})
			if !strings.HasPrefix(got, "0\na b\n") || strings.Contains(got, "0000") {
				t.Fatalf("something was left: %q", got)
			}
		}
	}},
	{"RunServesManyAtOnce", func(t *testing.T, h target) {
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				word := fmt.Sprint("word ", i)
				res, err := h.Run(h.ctx, hostexec.Command{Script: `echo "$1"; cat; echo "$1" >&2; exit 7`, Args: []string{word}, Stdin: []byte(word)})
				var exit *hostexec.ExitError
				if !errors.As(err, &exit) || exit.Code != 7 || string(res.Stdout) != word+"\n"+word || string(res.Stderr) != word+"\n" {
					t.Errorf("%d: %q %q %v", i, res.Stdout, res.Stderr, err)
				}
			})
		}
		wg.Wait()
	}},
	{"RunIsNotHeldUpBySlowCommands", func(t *testing.T, h target) {
		dir := h.mkdir(t)
		h.run(t, hostexec.Command{Script: `cd "$1" && mkfifo gate`, Args: []string{dir}})
		var wg sync.WaitGroup
		const slow = 12
		for i := range slow {
			wg.Go(func() {
				_, err := h.Run(h.ctx, hostexec.Command{Script: `cd "$1" && : >"at.$2" && cat gate`, Args: []string{dir, fmt.Sprint(i)}})
				if err != nil {
					t.Error(err)
				}
			})
		}
		eventually(t, h.ctx, "all slow commands run", func() bool {
			return h.run(t, hostexec.Command{Script: `ls "$1" | grep -c '^at\.' || :`, Args: []string{dir}}) == fmt.Sprintln(slow)
		})
		h.run(t, hostexec.Command{Script: `exec 3<>"$1/gate"; echo go >&3`, Args: []string{dir}})
		// Each reader needs an end of file, so the FIFO is opened and closed again and
		// again.
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		for {
			select {
			case <-done:
				return
			default:
				h.run(t, hostexec.Command{Script: `echo >"$1/gate" & p=$!; sleep 0.02; kill $p 2>/dev/null || :`, Args: []string{dir}})
			}
		}
	}},
	{"RunDoesNotWaitForWhatIsLeftRunning", func(t *testing.T, h target) {
		got := h.run(t, hostexec.Command{Script: "sleep 600 & echo $!"})
		h.run(t, hostexec.Command{Script: `kill "$1"`, Args: []string{strings.TrimSpace(got)}})
	}},
	{"RunBoundsOutput", func(t *testing.T, h target) {
		c := func(n int, to string) hostexec.Command {
			return hostexec.Command{Script: fmt.Sprintf("head -c %d /dev/zero >&%s", n, to)}
		}
		res, err := h.Run(h.ctx, c(hostexec.MaxOutput, "1"))
		if err != nil || len(res.Stdout) != hostexec.MaxOutput {
			t.Errorf("the longest output: %d bytes, %v", len(res.Stdout), err)
		}
		for _, to := range []string{"1", "2"} {
			for _, n := range []int{hostexec.MaxOutput + 1, 3 * hostexec.MaxOutput} {
				var flood *hostexec.FloodError
				if _, err := h.Run(h.ctx, c(n, to)); !errors.As(err, &flood) || flood.Host != h.Name() || flood.Limit != hostexec.MaxOutput {
					t.Errorf("%d bytes on %s: %v", n, to, err)
				}
			}
		}
		h.run(t, hostexec.Command{Script: ":"})
	}},
	{"RunStopsWaitingWithItsContext", func(t *testing.T, h target) {
		dir := h.mkdir(t)
		ctx, cancel := context.WithCancelCause(h.ctx)
		why := errors.New("enough")
		go func() {
			for h.ctx.Err() == nil {
				if _, err := os.Stat(dir + "/began"); err == nil {
					break
				}
			}
			cancel(why)
		}()
		_, err := h.Run(ctx, hostexec.Command{Script: `: >"$1/began"; while [ -d "$1" ] && [ ! -e "$1/end" ]; do sleep 0.05; done`, Args: []string{dir}})
		if !errors.Is(err, hostexec.ErrOutcomeUnknown) || !errors.Is(err, why) {
			t.Errorf("a wait that was ended: %v", err)
		}
		if _, err := h.Run(ctx, hostexec.Command{Script: `: >"$1/never"`, Args: []string{dir}}); !errors.Is(err, hostexec.ErrUnreachable) || errors.Is(err, hostexec.ErrOutcomeUnknown) {
			t.Errorf("a command that never began: %v", err)
		}
		if _, err := os.Stat(dir + "/never"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("it began: %v", err)
		}
		h.run(t, hostexec.Command{Script: `: >"$1/end"`, Args: []string{dir}})
	}},
	{"RunNamesAFullDisk", func(t *testing.T, h target) {
		_, err := h.Run(h.ctx, hostexec.Command{Script: "LC_ALL=C cat /dev/zero >/dev/full"})
		var exit *hostexec.ExitError
		if !errors.Is(err, hostexec.ErrNoSpace) || !errors.As(err, &exit) {
			t.Error(err)
		}
	}},
	{"RunTakesBulk", func(t *testing.T, h target) {
		in := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
		if got := h.run(t, hostexec.Command{Script: "cat", Stdin: in, Bulk: true}); got != string(in) {
			t.Errorf("%d bytes came back as %d others", len(in), len(got))
		}
	}},
}
