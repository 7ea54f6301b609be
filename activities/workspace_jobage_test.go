package activities

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/internal/protocol"
)

// How long a job runs is counted from the start of the host. Setting its clock, as
// after a start without a network, does not end a job.
func TestAJobIsNotLateBecauseTheClockWasSet(t *testing.T) {
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: t.TempDir()})
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	stat, err := exec.Command("cat", "/proc/self/stat").Output()
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	now, err := strconv.ParseInt(strings.Fields(after)[19], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	const year = 365 * 24 * time.Hour
	for _, c := range []struct {
		name          string
		start         int64
		boot          string
		exit          string
		began, exited time.Duration // by the host's clock, as times before now
		ended         bool
		from, below   time.Duration // the age must be at least from and less than below
	}{
		{"it runs, and the clock was set forward", now - 100, string(boot), "", 5 * year, 0, false, time.Second, year},
		{"it runs, and the clock was set back", now - 100, string(boot), "", -5 * year, 0, false, time.Second, year},
		{"it ended, and the clock was set forward", 1000, string(boot), "0 7000", 5 * year, 0, true, time.Minute, time.Minute + 1},
		{"it ended, and the clock was set back", 1000, string(boot), "0 7000", 0, 5 * year, true, time.Minute, time.Minute + 1},
		{"it ended, and when is in the clock alone", 1000, string(boot), "0", 100 * time.Second, 40 * time.Second, true, time.Minute, time.Minute + 1},
		{"the host was started anew", 1000, "another\n", "", 60 * time.Second, 0, false, time.Minute, year},
		{"it never began", 0, "", "", 0, 0, false, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			j := workspaces.Job{Site: b.set.site, Host: b.host(), Layout: protocol.Layout{Dir: dir}, Name: "git"}
			if err := os.MkdirAll(j.Proc(), 0o700); err != nil {
				t.Fatal(err)
			}
			write := func(name, text string, ago time.Duration) {
				t.Helper()
				file := filepath.Join(j.Proc(), name)
				if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				at := time.Now().Add(-ago).Truncate(time.Second)
				if err := os.Chtimes(file, at, at); err != nil {
					t.Fatal(err)
				}
			}
			if c.start > 0 {
				write("started", fmt.Sprintf("77 %d %s 78 %d", c.start, strings.TrimSpace(c.boot), c.start), c.began)
			}
			if c.exit != "" {
				write("exit", c.exit, c.exited)
			}
			age, ended, err := j.Age(t.Context())
			if err != nil || ended != c.ended || age < c.from || age >= c.below {
				t.Errorf("it is %s old, ended %v, %v; want %s, and less than %s, ended %v", age, ended, err, c.from, c.below, c.ended)
			}
		})
	}
}
