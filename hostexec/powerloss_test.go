package hostexec_test

import (
	"os"
	"strings"
	"testing"

	"fairlead.dev/fairlead/hostexec/process"
)

// After a power loss, a host may have kept the name of a record and none or only some of
// its bytes. Then the outcome is unknown. The process is not started again, its journal
// stays, and the session can be closed.
func TestARecordThatAPowerLossCutShortMeansUnknown(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		s.start("/bin/sh", "-c", "echo done")
		eventually(t, "an end", func() bool { return s.inspect().State == process.Exited })
		whole := make(map[string]string)
		for _, name := range []string{"started", "exit"} {
			b, err := os.ReadFile(s.proc() + "/" + name)
			if err != nil {
				t.Fatal(err)
			}
			whole[name] = string(b)
		}
		put := func(name, text string) {
			t.Helper()
			if err := os.WriteFile(s.proc()+"/"+name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		check := func(what string, want process.State) {
			t.Helper()
			if st, err := process.Inspect(s.ctx, s.host, s.proc()); err != nil || st.State != want {
				t.Errorf("%s: %+v, %v, want %s", what, st, err, want)
			}
			if st, err := process.Start(s.ctx, s.host, s.spec("/bin/sh", "-c", "echo again")); err != nil || st.State != want {
				t.Errorf("%s, started again: %+v, %v", what, st, err)
			}
			if st, err := process.Stop(s.ctx, s.host, s.proc(), s.fence, 0); err != nil || st.State != want {
				t.Errorf("%s, stopped: %+v, %v", what, st, err)
			}
			if b, err := os.ReadFile(s.proc() + "/out.log"); string(b) != "done\n" || err != nil {
				t.Errorf("%s: the journal is %q, %v", what, b, err)
			}
		}
		first, _, _ := strings.Cut(whole["started"], " ")
		boot := strings.Fields(whole["started"])[2]
		for _, cut := range []string{"", first + " 12", strings.Repeat("\x00", len(whole["started"]))} {
			put("exit", whole["exit"])
			put("started", cut)
			check("the end was recorded", process.Exited)
			if err := os.Remove(s.proc() + "/exit"); err != nil {
				t.Fatal(err)
			}
			check("the start is "+cut, process.Rebooted)
		}
		for _, cut := range []string{"", "1", strings.Repeat("\x00", 8)} {
			put("exit", cut)
			put("started", whole["started"])
			check("the end is "+cut, process.Lost)
		}
		put("started", strings.Replace(whole["started"], boot, "01234567-89ab-cdef-0123-456789abcdef", 1))
		check("after a boot", process.Rebooted)
		if _, err := process.Reap(s.ctx, s.host, s.dir, s.mark, s.fence); err != nil {
			t.Error(err)
		}
		if err := process.Remove(s.ctx, s.host, s.proc(), s.fence); err != nil {
			t.Error(err)
		}
	})
}
