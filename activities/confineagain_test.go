package activities

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"

	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// scriptedProbe returns a probe whose codex answers each command with the next of
// results. The last one repeats.
func scriptedProbe(t *testing.T, results ...hosts.ProbeResult) (p *hosts.Probe, asked func() int) {
	t.Helper()
	ours, codexs := net.Pipe()
	p = &hosts.Probe{Conn: wire.NewConn(ours, wire.ConnConfig{})}
	done, n := make(chan struct{}), 0
	go func() {
		defer close(done)
		for lines := bufio.NewScanner(codexs); lines.Scan(); n++ {
			var ask struct {
				ID json.RawMessage `json:"id"`
			}
			if err := json.Unmarshal(lines.Bytes(), &ask); err != nil {
				t.Error(err)
			}
			said, err := json.Marshal(map[string]any{"id": ask.ID, "result": results[min(n, len(results)-1)]})
			if err != nil {
				t.Error(err)
			}
			fmt.Fprintf(codexs, "%s\n", said)
		}
	}()
	asked = func() int {
		p.Conn.Close()
		codexs.Close()
		<-done
		return n
	}
	return p, asked
}

// codex's sandbox does not start if another session's sandbox removes the folders that
// it has put into a folder which both may write.
func TestASandboxThatDoesNotStartIsTriedAgain(t *testing.T) {
	stumbles := hosts.ProbeResult{ExitCode: 1, Stderr: "bwrap: Can't mount tmpfs on /newroot/srv/shared/.codex: No such file or directory"}
	for _, c := range []struct {
		name    string
		results []hosts.ProbeResult
		asked   int
		says    string // part of the error; empty if there is none
	}{
		{"it starts then", []hosts.ProbeResult{stumbles, stumbles, {Stdout: "end\n"}}, 3, ""},
		{"it never starts", []hosts.ProbeResult{stumbles}, hosts.Trials, "no command starts in the sandbox that the session asks for (exit status 1: bwrap: Can't mount"},
		{"what started is not begun again", []hosts.ProbeResult{{ExitCode: 1, Stdout: "net x\n"}}, 1, "no command starts"},
		{"it takes too long", []hosts.ProbeResult{{ExitCode: hosts.TimedOut}}, 1, "did not end within"},
	} {
		p, asked := scriptedProbe(t, c.results...)
		err := p.Confined(t.Context(), "workspace-write", "", protocol.Layout{Dir: "/r/s", Root: "/r", WorkDir: "/r/s/work"}, hosts.Place{Home: "/root"}, false)
		if n := asked(); n != c.asked {
			t.Errorf("%s: %d commands were tried, not %d", c.name, n, c.asked)
		}
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
