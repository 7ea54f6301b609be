package hostexec_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/process"
)

func (s *scene) watchFile(file string) {
	s.t.Helper()
	if err := process.WatchFile(s.ctx, s.host, s.proc(), file, "a-note", s.fence); err != nil {
		s.t.Fatal(err)
	}
}

// tells checks the report of LookFiles.
func (s *scene) tells(when string, want ...process.ChangedFile) {
	s.t.Helper()
	got, err := process.LookFiles(s.ctx, s.host, filepath.Dir(s.dir))
	if err != nil {
		s.t.Fatal(err)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		s.t.Errorf("%s: a look told of %+v, want %+v", when, got, want)
	}
}

// A watched file is reported if it is newer or older than before, or gone, until the next
// exclusive attachment.
func TestAFileThatIsWaitedForIsToldWhenItChanges(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		changed := process.ChangedFile{Session: "s-1", Process: "p", Note: "a-note"}
		s.tells("with nothing there")
		s.start("/bin/sh", "-c", `while read -r x; do :; done`)
		file := filepath.Join(s.dir, "home", "auth file.json")
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		write := func(ago time.Duration) {
			t.Helper()
			at := time.Now().Add(-ago)
			if err := errors.Join(os.WriteFile(file, []byte("x"), 0o644), os.Chtimes(file, at, at)); err != nil {
				t.Fatal(err)
			}
		}
		write(time.Hour)
		s.leaveWatch(0)
		s.tells("with no file waited for")
		s.watchFile(file)
		s.tells("as it was")
		s.sees() // the process itself has not changed

		write(time.Minute)
		s.tells("written again", changed)
		s.tells("looked at again", changed)
		s.leaveWatch(0)
		s.tells("given up by the next watch")
		s.watchFile(file)
		s.tells("as it is now")
		write(2 * time.Hour)
		s.tells("an earlier one", changed)

		s.watchFile(file)
		if err := os.Rename(file, file+"-"); err != nil {
			t.Fatal(err)
		}
		s.tells("gone", changed)
		s.watchFile(file)
		s.tells("waited for, and not there")
		if err := os.Rename(file+"-", file); err != nil {
			t.Fatal(err)
		}
		s.watchFile(file)
		write(time.Minute)
		s.attach(process.AttachOptions{}).Close()
		s.tells("attached")
		for _, note := range []string{"", "two words", "a\nline"} {
			if err := process.WatchFile(s.ctx, s.host, s.proc(), file, note, s.fence); err == nil {
				t.Errorf("note %q was taken", note)
			}
		}
		older := s.fence
		older.Epoch.Generation--
		if err := process.WatchFile(s.ctx, s.host, s.proc(), file, "late", older); !errors.Is(err, hostexec.ErrFenced) {
			t.Errorf("a former holder: %v", err)
		}
	})
}

// An invalid note does not hide another watched file.
func TestANoteThatIsNoneHidesNoOther(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		s.start("/bin/sh", "-c", `while read -r x; do :; done`)
		file := filepath.Join(s.dir, "file")
		if err := os.WriteFile(file, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
		s.leaveWatch(0)
		s.watchFile(file)
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		for session, note := range map[string]string{"a-0": "two words\n", "s-0": "\n", "s-2": strings.Repeat("x", 3<<20) + "\n", "s-3": "", "s-4": "no end"} {
			dir := filepath.Join(filepath.Dir(s.dir), session, "proc", "p")
			err := os.MkdirAll(dir, 0o755)
			if note == "" {
				err = errors.Join(err, syscall.Mkfifo(filepath.Join(dir, "watch.note"), 0o644))
			} else {
				err = errors.Join(err, os.WriteFile(filepath.Join(dir, "watch.note"), []byte(note), 0o644))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		s.tells("among garbled ones", process.ChangedFile{Session: "s-1", Process: "p", Note: "a-note"})
	})
}

func TestAFileIsReadOnlyWhenItChanged(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		file := filepath.Join(s.dir, "file")
		read := func(known string) (string, bool, error) {
			data, changed, err := hostexec.ReadChanged(s.ctx, s.host, file, 16, known)
			return string(data), changed, err
		}
		if _, _, err := read(""); !errors.Is(err, hostexec.ErrNotExist) {
			t.Errorf("with none there: %v", err)
		}
		const sum = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824" // of hello
		for _, c := range []struct {
			text, known string
			changed     bool
		}{{"hello", "", true}, {"hello", sum, false}, {"hellO", sum, true}, {"", sum, true}, {"", "", true}, {"same\n", sum, true}} {
			if err := errors.Join(os.MkdirAll(s.dir, 0o777), os.WriteFile(file, []byte(c.text), 0o644)); err != nil {
				t.Fatal(err)
			}
			want := c.text
			if !c.changed {
				want = ""
			}
			if got, changed, err := read(c.known); err != nil || changed != c.changed || got != want {
				t.Errorf("%q, known %.4s: %q, %v, %v", c.text, c.known, got, changed, err)
			}
		}
		if err := os.WriteFile(file, make([]byte, 17), 0o644); err != nil {
			t.Fatal(err)
		}
		var long *hostexec.OutputTooLongError
		if _, _, err := read(sum); !errors.As(err, &long) {
			t.Errorf("a long one: %v", err)
		}
	})
}
