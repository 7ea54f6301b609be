package sessions

import (
	"encoding/json"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestExecKeepsTheStreamsApartAndTheStatus(t *testing.T) {
	r := e2e.Lab.Ctl(e2e.Within(t), nil, "host", "exec", "web-1", "--", "sh", "-c", `printf 'to out\n'; printf 'to err\n' >&2; exit 7`)
	if r.Code != 7 || r.Stdout != "to out\n" || r.Stderr != "to err\n" {
		t.Errorf("%v", r)
	}
	r = e2e.Lab.Ctl(e2e.Within(t), nil, "host", "exec", "web-1", "--", "printf", "%s|", "a b", "c'd", `e"f`, "$HOME", "--flag")
	if r.Code != 0 || r.Stdout != `a b|c'd|e"f|$HOME|--flag|` {
		t.Errorf("%v", r)
	}
	r = e2e.Lab.Ctl(e2e.Within(t), nil, "host", "exec", "web-1", "--", "not-a-command-at-all")
	if r.Code == 0 {
		t.Errorf("%v", r)
	}
	r = e2e.Lab.Ctl(e2e.Within(t), nil, "host", "exec", "web-1", "--", "sh", "-c", "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done")
	if lines := strings.Count(r.Stdout, "\n"); r.Code != 0 || lines != 20000 || !strings.HasSuffix(r.Stdout, "line 19999\n") {
		t.Errorf("exit %d with %d lines", r.Code, lines)
	}
}

func TestCheckTellsEachCapability(t *testing.T) {
	r := e2e.Lab.Ctl(e2e.Within(t), nil, "host", "check", "web-1", "-o", "json")
	var v protocol.CheckHostResult
	if err := json.Unmarshal([]byte(r.Stdout), &v); err != nil || r.Code != 0 || !v.OK {
		t.Fatalf("%v %v", err, r)
	}
	if len(v.Checks) < 8 || v.Facts["os"] == "" || v.Facts["arch"] == "" || v.Facts["codex"] == "" {
		t.Errorf("found %+v", v)
	}
	for _, c := range v.Checks {
		if !c.OK {
			t.Errorf("%s: %s (%s)", c.Name, c.Detail, c.Hint)
		}
	}
}

func TestProvisionTwiceChangesNothing(t *testing.T) {
	var first, second protocol.ProvisionCodexResult
	if err := e2e.Lab.JSON(e2e.Within(t), &first, "host", "provision", "web-1"); err != nil {
		t.Fatal(err)
	}
	if err := e2e.Lab.JSON(e2e.Within(t), &second, "host", "provision", "web-1"); err != nil {
		t.Fatal(err)
	}
	if first.How != "present" || first.Path != second.Path || first.Version != second.Version {
		t.Errorf("first %+v, second %+v", first, second)
	}
}
