package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A person is somebody at a real terminal with ctl on it.
type person struct {
	t    *testing.T
	end  *os.File
	cmd  *exec.Cmd
	done chan error
	read int // of what was seen: what is waited for next comes later

	mu  sync.Mutex
	saw strings.Builder // guarded by mu
}

// at starts ctl at a terminal.
func at(t *testing.T, args ...string) *person {
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
	c := shared.Command(within(t), args...)
	p := &person{t: t, end: end, cmd: c, done: make(chan error, 1)}
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
			if err != nil { // the program has ended
				p.done <- c.Wait()
				return
			}
		}
	}()
	return p
}

func (p *person) seen() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.saw.String()
}

// types waits for words and then types a line.
func (p *person) types(when, line string) {
	p.t.Helper()
	until(p.t, fmt.Sprintf("%q at the terminal", when), func() (bool, error) {
		if seen := p.seen(); !strings.Contains(seen, when) {
			return false, fmt.Errorf("there is:\n%s", seen)
		}
		return true, nil
	})
	if _, err := p.end.WriteString(line + "\n"); err != nil {
		p.t.Fatal(err)
	}
}

// then waits for words that come after those that it waited for before, and
// types a line.
func (p *person) then(when, line string) {
	p.t.Helper()
	p.hears(when)
	p.says(line)
}

func (p *person) says(line string) {
	p.t.Helper()
	if _, err := p.end.WriteString(line + "\n"); err != nil {
		p.t.Fatal(err)
	}
}

func (p *person) hears(words string) {
	p.t.Helper()
	until(p.t, fmt.Sprintf("%q at the terminal", words), func() (bool, error) {
		news := p.seen()[p.read:]
		i := strings.Index(news, words)
		if i < 0 {
			return false, fmt.Errorf("there is:\n%s", news)
		}
		p.read += i + len(words)
		return true, nil
	})
}

// leaves waits until ctl has ended well, and says what was on the screen.
func (p *person) leaves() string {
	p.t.Helper()
	select {
	case err := <-p.done:
		if err != nil {
			p.t.Errorf("ctl ended with %v:\n%s", err, p.seen())
		}
	case <-time.After(2 * time.Minute):
		p.t.Fatalf("ctl does not end:\n%s", p.seen())
	}
	return p.seen()
}

// TestEverythingCanBeAnsweredAtTheTerminal of the one who sent the message:
// choices by number and name, permissions one by one.
func TestEverythingCanBeAnsweredAtTheTerminal(t *testing.T) {
	id := "terminal"
	asking(t, id)
	p := at(t, "session", "send", id, "you need to know")
	p.types("2) blue", "2")
	p.types("What is the word?", "SOME")
	if screen := p.leaves(); !strings.Contains(screen, "I was told") {
		t.Errorf("on the screen is\n%s", screen)
	}
	if said := lastText(t, id); !strings.Contains(said, "blue") || !strings.Contains(said, `"some"`) {
		t.Errorf("the model said %q", said)
	}
	p = at(t, "session", "send", id, "you need permissions")
	p.types("s give some of it", "s")
	p.types("use the network? [y/n]", "n")
	p.types("read /srv/data? [y/n]", "n")
	p.types("write /srv/out? [y/n]", "y")
	p.types("not for this turn alone? [y/n]", "n")
	p.leaves()
	if said := lastText(t, id); !strings.Contains(said, "/srv/out") || strings.Contains(said, "/srv/data") || strings.Contains(said, `"enabled":true`) {
		t.Errorf("the model said %q", said)
	}
	// A secret, for a question that is none by itself.
	send(t, id, "you need to know")
	a := open(t, id, 1)[0]
	p = at(t, "approval", "answer", a.ID, "colour=1", "--secret", "word")
	p.types("word (not shown) >", "swordfish in the pond")
	if screen := p.leaves(); strings.Contains(screen, "swordfish") {
		t.Errorf("on the screen is\n%s", screen)
	}
	if v := ended(t, id, 3); v.Turn.Status != "completed" {
		t.Errorf("session is %+v", v)
	}
	if said := lastText(t, id); !strings.Contains(said, "redacted") || strings.Contains(said, "swordfish") {
		t.Errorf("the model is shown to have said %q", said)
	}
}
