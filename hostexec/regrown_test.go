package hostexec_test

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"fairlead.dev/fairlead/hostexec/process"
)

// Somebody truncated the journal on the host, and it grew beyond the offset of the reader.
// The byte before that offset shows it, because readers of lines stop after newlines.
func TestAJournalThatWasCutAndGrewAgainIsLost(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		s.start("/bin/sleep", "1000")
		const at = 100
		journal := func(before string) {
			t.Helper()
			line := strings.Repeat("é", at)
			// WriteFile truncates the journal in place, as a shell's > does, so the process
			// goes on writing to it.
			if err := os.WriteFile(s.proc()+"/out.log", []byte(line[:at-len(before)]+before+"the rest\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []struct {
			before string
			lost   bool
		}{{"x", true}, {" ", true}, {"\x00", true}, {"\r", true}, {"\xc3", true}, {"\xff", true}, {":0", true}, {"\n\x00", true}, {"\n", false}, {"\x00\n", false}} {
			journal(c.before)
			for _, follow := range []bool{false, true} {
				opts := process.AttachOptions{Fence: s.fence, Follow: follow, Offset: at, Lines: true}
				a, err := process.Attach(s.ctx, s.host, s.proc(), opts)
				if lost := errors.Is(err, process.ErrJournalLost); lost != c.lost || err != nil && !lost {
					t.Errorf("behind %q: %v", c.before, err)
				}
				if err != nil && !strings.Contains(err.Error(), "no line ends at byte 100") {
					t.Errorf("behind %q it does not say why: %v", c.before, err)
				}
				if err == nil {
					readUntil(t, a, "the rest\n")
					a.Close()
				}
			}
			piece, err := process.ReadJournal(s.ctx, s.host, s.proc(), at)
			if lost := errors.Is(err, process.ErrJournalLost); lost != c.lost || err == nil && !strings.HasPrefix(string(piece), "the rest\n") {
				t.Errorf("a piece behind %q: %q, %v", c.before, piece, err)
			}
		}
		// Without Lines, a reader may begin at any offset.
		journal("x")
		a := s.attach(process.AttachOptions{Offset: at})
		readUntil(t, a, "the rest\n")
		a.Close()
		s.waitDetached()
	})
}

// The byte before the end of a hole is gone, so it does not show whether a line begins
// there.
func TestAReaderOfLinesGoesOnWhereATrimEnded(t *testing.T) {
	const size = 1 << 20
	whereHolesAre(t, func(t *testing.T, s *scene) {
		s.emitted(size, "1")
		log := s.proc() + "/out.log"
		f, err := os.OpenFile(log, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteAt([]byte("\n"), 512<<10-1)
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		s.trim(512 << 10)
		want, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		for _, follow := range []bool{false, true} {
			a := s.attach(process.AttachOptions{Follow: follow, Offset: 512 << 10, Lines: true})
			got := make([]byte, size/2)
			if _, err := io.ReadFull(a, got); err != nil || string(got) != string(want[size/2:]) {
				t.Errorf("other bytes, %v", err)
			}
			a.Close()
		}
		piece, err := process.ReadJournal(s.ctx, s.host, s.proc(), 512<<10)
		if err != nil || string(piece) != string(want[512<<10:]) {
			t.Errorf("a piece: %d bytes, %v", len(piece), err)
		}
		// This offset is the end of a later block, after the hole.
		if _, err := process.ReadJournal(s.ctx, s.host, s.proc(), 576<<10); !errors.Is(err, process.ErrJournalLost) {
			t.Errorf("a piece from the middle of a line: %v", err)
		}
		s.waitDetached()
	})
}
