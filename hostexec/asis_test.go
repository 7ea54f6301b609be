package hostexec_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/hostexec/process"
)

// hostsAsTheyAre returns hosts with various setups. Each has only the programs that a
// session needs.
func hostsAsTheyAre(t *testing.T) []place {
	over := func(opts hosttest.Options, path string) func(t *testing.T) hostexec.Host {
		return func(t *testing.T) hostexec.Host {
			h := newHost(t, hosttest.StartSSHD(t, opts).Spec())
			if path == "" {
				return h
			}
			return &otherShell{h, path}
		}
	}
	posix := strings.Fields("sh cat ls tail mkdir mkfifo rm rmdir mv ln grep sleep flock sed find tr id head wc chmod dd sha256sum tar perl")
	links := make(map[string]string)
	for _, name := range posix {
		links[name] = lookPath(t, name)
	}
	polls := farm(t, nil)
	script := "#!/bin/sh\nexec " + lookPath(t, "tail") + ` ---disable-inotify "$@"`
	if err := os.WriteFile(polls+"/tail", []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return []place{
		{"busybox only", over(hosttest.Options{}, busybox(t))},
		{"no setsid", over(hosttest.Options{}, farm(t, links))},
		{"tail polls", over(hosttest.Options{}, polls+":"+os.Getenv("PATH"))},
		{"no SFTP", over(hosttest.Options{Config: []string{"Subsystem sftp /bin/false"}}, "")},
		{"one session a connection", over(hosttest.Options{Config: []string{"MaxSessions 1", "MaxStartups 10:30:100"}}, "")},
		{"everything at once", over(hosttest.Options{Config: []string{"MaxSessions 1", "MaxStartups 10:30:100", "Subsystem sftp /bin/false"}}, busybox(t))},
	}
}

func TestASessionLivesOnHostsAsTheyAre(t *testing.T) {
	data := pattern(6, 3<<20)
	digest := sha256.Sum256(data)
	for _, p := range hostsAsTheyAre(t) {
		t.Run(p.name, func(t *testing.T) {
			s := newScene(t, p.host(t))
			if err := hostexec.WriteFile(t.Context(), s.host, s.dir+"/home/small", []byte("small"), 0o600, &s.fence); err != nil {
				t.Fatal(err)
			}
			if err := hostexec.Upload(t.Context(), s.host, s.dir+"/home/big", bytes.NewReader(data), int64(len(data)), hex.EncodeToString(digest[:]), 0o600, &s.fence); err != nil {
				t.Fatal(err)
			}
			if there, err := os.ReadFile(s.dir + "/home/big"); err != nil || !bytes.Equal(there, data) {
				t.Errorf("%d bytes, %v", len(there), err)
			}
			s.program("echo")
			a := s.attach(process.AttachOptions{})
			in := bufio.NewReader(a)
			if line, err := in.ReadString('\n'); line != "\n" || err != nil {
				t.Fatalf("first comes %q, %v", line, err)
			}
			// Commands and files work beside the attachment.
			for i := range 5 {
				want := fmt.Sprintf("line %d\n", i)
				if _, err := io.WriteString(a, want); err != nil {
					t.Fatal(err)
				}
				if res, err := s.host.Run(t.Context(), hostexec.Command{Script: `cat "$1"`, Args: []string{s.dir + "/home/small"}, Fence: &s.fence}); err != nil || string(res.Stdout) != "small" {
					t.Fatalf("%q, %v", res.Stdout, err)
				}
				if line, err := in.ReadString('\n'); line != want || err != nil {
					t.Fatalf("%q, %v", line, err)
				}
			}
			former := s.fence
			s.fence.Epoch.Attempt++
			newer := s.attach(process.AttachOptions{Fence: s.fence, Offset: s.inspect().Size})
			if _, err := io.Copy(io.Discard, a); !errors.Is(err, hostexec.ErrFenced) {
				t.Errorf("the former holder: %v", err)
			}
			if _, err := process.TrimJournal(t.Context(), s.host, s.proc(), 0, former); !errors.Is(err, hostexec.ErrFenced) {
				t.Errorf("its trim: %v", err)
			}
			newer.Close()
			s.waitDetached()
			if st := s.stop(time.Minute); st.State != process.Exited {
				t.Errorf("%+v", st)
			}
			if _, err := process.Reap(t.Context(), s.host, s.dir, s.mark, s.fence); err != nil {
				t.Error(err)
			}
			if err := process.Remove(t.Context(), s.host, s.proc(), s.fence); err != nil {
				t.Error(err)
			}
			if err := hostexec.RemoveTree(t.Context(), s.host, s.dir, filepath.Dir(s.dir), &s.fence); err != nil {
				t.Error(err)
			}
			if left := leftovers(t, s); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}
