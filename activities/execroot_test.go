package activities

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/internal/protocol"
)

// A command that was started is not started again while the disk with its folder is not
// mounted, because its outcome is not known yet.
func TestACommandIsNotRunAgainOnAHostWhoseDiskIsNotMounted(t *testing.T) {
	for _, name := range []string{"no folder", "another root was made there"} {
		t.Run(name, func(t *testing.T) {
			d := newDisk(t)
			b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: d.root})
			ran := filepath.Join(t.TempDir(), "ran")
			argv := []string{"sh", "-c", `echo once >>"$1"; until [ -e "$1.go" ]; do sleep 0.05; done`, "sh", ran}
			stop := make(chan struct{})
			ended := make(chan error, 1)
			go func() {
				_, err := b.exec(t.Context(), "moored", 1, stop, argv...)
				ended <- err
			}()
			await(t, "the command", func() bool { _, err := os.Stat(ran); return err == nil })
			close(stop)
			if err := <-ended; !errors.Is(err, kit.ErrHandOver) {
				t.Fatal(err)
			}
			if err := os.WriteFile(ran+".go", nil, 0o600); err != nil {
				t.Fatal(err)
			}
			await(t, "its end", func() bool { _, err := os.Stat(d.root + "/exec/moored/proc/command/exit"); return err == nil })
			d.unmount()
			withoutDisk(b, d)[name]()
			_, err := b.exec(t.Context(), "moored", 2, nil, argv...)
			notMounted(t, "run it", d.root, err)
			d.mount()
			if out, err := b.exec(t.Context(), "moored", 3, nil, argv...); err != nil || out.State != "exited" || out.Code != 0 {
				t.Errorf("with the disk there: %+v, %v", out, err)
			}
			if got, err := os.ReadFile(ran); string(got) != "once\n" {
				t.Errorf("it ran %q, %v", got, err)
			}
		})
	}
}
