package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A Person is somebody who uses ctl at a real terminal.
type Person struct {
	t    *testing.T
	end  *os.File
	Cmd  *exec.Cmd
	Done chan error // ctl's exit
	read int        // bytes of saw in which Hears has found its words

	mu  sync.Mutex
	saw strings.Builder // guarded by mu
}

// At starts ctl at a terminal.
func At(t *testing.T, args ...string) *Person {
	t.Helper()
	return at(t, nil, args)
}

// AtLines starts ctl at a terminal at which people type lines, not keys.
func AtLines(t *testing.T, args ...string) *Person {
	t.Helper()
	return at(t, []string{"FAIRLEAD_ACCESSIBLE=1"}, args)
}

func at(t *testing.T, env, args []string) *Person {
	t.Helper()
	end, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end.Close() })
	if err := unix.IoctlSetPointerInt(int(end.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(end.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	c := Lab.Command(Within(t), args...)
	c.Env = append(slices.Clone(c.Env), env...)
	p := &Person{t: t, end: end, Cmd: c, Done: make(chan error, 1)}
	c.Stdin, c.Stdout, c.Stderr = tty, tty, tty
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	tty.Close()
	go func() {
		buf := make([]byte, 4<<10)
		for {
			n, err := end.Read(buf)
			p.mu.Lock()
			p.saw.Write(buf[:n])
			p.mu.Unlock()
			if err != nil { // the program has exited
				p.Done <- c.Wait()
				return
			}
		}
	}()
	return p
}

// Seen returns everything that was on the screen.
func (p *Person) Seen() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.saw.String()
}

// Types waits for words anywhere on the screen and then types a line.
func (p *Person) Types(when, line string) {
	p.t.Helper()
	Until(p.t, fmt.Sprintf("%q at the terminal", when), func() (bool, error) {
		if seen := p.Seen(); !strings.Contains(seen, when) {
			return false, fmt.Errorf("there is:\n%s", seen)
		}
		return true, nil
	})
	p.Says(line)
}

// Then waits for words after those of the last wait, and then types a line.
func (p *Person) Then(when, line string) {
	p.t.Helper()
	p.Hears(when)
	p.Says(line)
}

// Says types a line.
func (p *Person) Says(line string) {
	p.t.Helper()
	p.Presses(line + "\n")
}

// Presses types keys, without adding Enter.
func (p *Person) Presses(keys string) {
	p.t.Helper()
	if _, err := p.end.WriteString(keys); err != nil {
		p.t.Fatal(err)
	}
}

// Hears waits for words after those of the last wait.
func (p *Person) Hears(words string) {
	p.t.Helper()
	Until(p.t, fmt.Sprintf("%q at the terminal", words), func() (bool, error) {
		news := p.Seen()[p.read:]
		i := strings.Index(news, words)
		if i < 0 {
			return false, fmt.Errorf("there is:\n%s", news)
		}
		p.read += i + len(words)
		return true, nil
	})
}

// Leaves waits until ctl has exited with success, and returns what was on the
// screen.
func (p *Person) Leaves() string {
	p.t.Helper()
	select {
	case err := <-p.Done:
		if err != nil {
			p.t.Errorf("ctl ended with %v:\n%s", err, p.Seen())
		}
	case <-time.After(2 * time.Minute):
		p.t.Fatalf("ctl does not end:\n%s", p.Seen())
	}
	return p.Seen()
}
