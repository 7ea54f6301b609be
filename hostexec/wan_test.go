package hostexec_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/hostexec/process"
	"fairlead.dev/fairlead/internal/realparts"
)

// oneWay is the delay in one direction. A round trip takes 50 ms.
const oneWay = 25 * time.Millisecond

func newLine(t testing.TB) *hosttest.DelayLine {
	t.Helper()
	realparts.NotShort(t)
	line, err := hosttest.NewDelayLine(t.Context(), oneWay)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := line.Close(); err != nil {
			t.Error(err)
		}
	})
	return line
}

func TestOverASlowLine(t *testing.T) {
	line := newLine(t)
	sshd := hosttest.StartSSHD(t, hosttest.Options{Behind: line})
	h := newHost(t, sshd.Spec())
	s := newScene(t, h)

	// The line really has the delay, so no command is faster.
	for range 3 {
		began := time.Now()
		if _, err := h.Run(t.Context(), hostexec.Command{Script: ":"}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 2*oneWay {
			t.Fatalf("a command took %v over a line of %v each way", took, oneWay)
		}
	}

	data := pattern(4, 6<<20)
	digest := sha256.Sum256(data)
	for _, size := range []int{100, 6 << 20} {
		digest = sha256.Sum256(data[:size])
		err := hostexec.Upload(t.Context(), h, s.dir+"/file", bytes.NewReader(data[:size]), int64(size), hex.EncodeToString(digest[:]), 0o600, &s.fence)
		if err != nil {
			t.Fatal(err)
		}
		if there, err := os.ReadFile(s.dir + "/file"); err != nil || !bytes.Equal(there, data[:size]) {
			t.Errorf("%d bytes of %d, %v", len(there), size, err)
		}
	}

	s.program("echo")
	older := s.attach(process.AttachOptions{})
	if _, err := io.WriteString(older, "one\n"); err != nil {
		t.Fatal(err)
	}
	readUntil(t, older, "one\n")
	io.WriteString(older, "on its way\n")
	s.fence.Epoch.Attempt++
	newer := s.attach(process.AttachOptions{})
	if _, err := io.WriteString(newer, "two\n"); err != nil {
		t.Fatal(err)
	}
	readUntil(t, newer, "two\n")
	if _, err := io.Copy(io.Discard, older); !errors.Is(err, hostexec.ErrFenced) {
		t.Errorf("older: %v", err)
	}

	// Nothing is lost if the line is silent for a moment.
	line.Drop()
	if _, err := io.WriteString(newer, "three\n"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := h.Run(ctx, hostexec.Command{Script: ":"}); !errors.Is(err, hostexec.ErrOutcomeUnknown) {
		t.Errorf("while nothing passes: %v", err)
	}
	line.Restore()
	readUntil(t, newer, "three\n")

	// A reset is noticed at once, and the next command gets a new connection.
	if n := line.Reset(); n == 0 {
		t.Error("no connection was reset")
	}
	if _, err := io.Copy(io.Discard, newer); !errors.Is(err, hostexec.ErrOutcomeUnknown) {
		t.Errorf("after a reset: %v", err)
	}
	size := s.inspect().Size
	s.fence.Epoch.Attempt++
	again := s.attach(process.AttachOptions{Offset: size})
	if _, err := io.WriteString(again, "four\n"); err != nil {
		t.Fatal(err)
	}
	readUntil(t, again, "four\n")
}
