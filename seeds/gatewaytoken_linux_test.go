package seeds

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/lab/stranger"
)

// A tokenRun is codex's command for the token, with a sleep that leaves a byte each time.
type tokenRun struct {
	*testing.T
	dir, token string
	port       int
	cmd        *exec.Cmd
	ended      chan error
	out        bytes.Buffer
}

// runTokenCommand starts the command, as a child of parent if there is one.
func runTokenCommand(t *testing.T, parent ...string) *tokenRun {
	t.Helper()
	real, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	// No system gives these ports to connections: they are those of gateways.
	r := &tokenRun{T: t, dir: t.TempDir(), port: 20_000 + rand.N(12_000), ended: make(chan error, 1)}
	r.token = filepath.Join(r.dir, "token")
	for name, text := range map[string]string{"token": "fl-the-token\n", "sleep": fmt.Sprintf("#!/bin/sh\nprintf . >>'%s/slept'\nexec '%s' 0.05\n", r.dir, real)} {
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	words := append(parent, "sh", "-c", tokenCommand, "sh", r.token, fmt.Sprintf("%04X", r.port))
	r.cmd = exec.CommandContext(t.Context(), words[0], words[1:]...)
	r.cmd.Env = append(os.Environ(), "PATH="+r.dir+":"+os.Getenv("PATH"))
	r.cmd.Stdout = &r.out
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { r.ended <- r.cmd.Wait() }() // for all processes that have its output
	return r
}

// waits waits until the command has looked for sshd twice more, in vain.
func (r *tokenRun) waits() {
	r.Helper()
	slept := func() int {
		text, _ := os.ReadFile(filepath.Join(r.dir, "slept")) // there is none yet
		return len(text)
	}
	for until := slept() + 2; slept() < until; time.Sleep(10 * time.Millisecond) {
		select {
		case <-r.ended:
			r.Fatalf("the command did not wait: it printed %q", r.out.String())
		case <-r.Context().Done():
			r.Fatal("the command does not look for sshd")
		default:
		}
	}
}

// prints waits for the command's end.
func (r *tokenRun) prints(want string) {
	r.Helper()
	select {
	case err := <-r.ended:
		if r.out.String() != want {
			r.Errorf("the command printed %q, want %q: %v", r.out.String(), want, err)
		}
	case <-time.After(5 * time.Minute):
		r.Error("the command does not end")
	}
}

func (r *tokenRun) listen() net.Listener {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", r.port))
	if err != nil {
		r.Error(err)
	}
	return l
}

func TestCodexGetsItsTokenOnceSSHDListens(t *testing.T) {
	r := runTokenCommand(t)
	r.waits()
	var other net.Listener
	stranger.Do(t, func() { other = r.listen() })
	if other == nil {
		return
	}
	r.waits() // another user's program has the port
	other.Close()
	ours := r.listen()
	if ours == nil {
		return
	}
	defer ours.Close()
	r.prints("fl-the-token\n")
}

func TestTheCommandForTheTokenEndsWithCodex(t *testing.T) {
	r := runTokenCommand(t, "sh", "-c", `"$@" & wait`, "codex")
	r.waits()
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	r.prints("")
}
