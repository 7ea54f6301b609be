package hostexec_test

import (
	"errors"
	"io"
	"testing"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestTheInputOfACommandThatHasEndedIsClosedWithoutAnError(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]hostexec.Host{
		"local": newHost(t, protocol.HostSpec{Name: protocol.LocalHost}),
		"ssh":   newHost(t, hosttest.StartSSHD(t, hosttest.Options{}).Spec()),
	} {
		t.Run(name, func(t *testing.T) {
			for range 3 { // the first runs in a connection's first shell
				s, err := h.Start(t.Context(), hostexec.Command{Script: "exit 3"})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				if _, err := io.Copy(io.Discard, s); err != nil {
					t.Error(err)
				}
				var exit *hostexec.ExitError
				if err := s.Wait(); !errors.As(err, &exit) || exit.Code != 3 {
					t.Errorf("Wait: %v", err)
				}
				if err := s.CloseWrite(); err != nil {
					t.Errorf("CloseWrite: %v", err)
				}
			}
		})
	}
}
