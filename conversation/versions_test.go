package conversation

import (
	"errors"
	"strings"
	"testing"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestOutsideOfTheWindowIsRefusedWithASentence(t *testing.T) {
	for version, says := range map[string]string{
		"0.124.9":       "codex 0.124.9 is too old; fairlead speaks to 0.125.0 up to 0.169.0 and its patches (provision the host)",
		"0.170.0":       "codex 0.170.0 is newer than all that were tried; fairlead speaks to 0.125.0 up to 0.169.0 and its patches (provision the host, or allow it with codex.any_version)",
		"1.0.0":         "codex 1.0.0 is newer than all",
		"":              "codex does not say its version",
		"who knows":     "codex does not say its version",
		"0.169.0":       "",
		"0.169.1":       "",
		"0.169.12":      "",
		"0.125.0":       "",
		"0.140.0-alpha": "",
	} {
		err := wire.CheckVersion(version)
		var ve *wire.VersionError
		switch {
		case says == "" && err != nil, says != "" && !errors.As(err, &ve):
			t.Errorf("%q: %v", version, err)
		case err != nil && !strings.HasPrefix(err.Error(), says):
			t.Errorf("%q: %q, want %q", version, err, says)
		}
	}
}

// A pump gives up before it opens a thread, unless any version is allowed.
func TestPumpOpensNoThreadWithAVersionOutside(t *testing.T) {
	for agent, c := range map[string]struct {
		any    bool
		opened bool
	}{"f/0.170.0 (x)": {}, "f/0.124.0 (x)": {}, "f/0.171.0 (x)": {any: true, opened: true}, "f/0.169.0 (x)": {opened: true}, "f/0.169.1 (x)": {opened: true}} {
		s := perform(t, PumpInput{State: PumpState{Cursor: protocol.Cursor{Incarnation: 1}}, Thread: ThreadSpec{CWD: "/w", Sandbox: "read-only", ApprovalPolicy: "never"}}, Options{AnyVersion: c.any})
		s.hear(`{"id":"g1.p9.initialize.0","result":{"userAgent":"` + agent + `"}}`)
		if opened := strings.Contains(strings.Join(s.said, "\n"), wire.MethodStart); opened != c.opened {
			t.Errorf("%s: said %q", agent, s.said)
		}
		if c.opened {
			continue
		}
		if r := s.result(Refused); r.Problem == nil || r.Problem.Kind != "version" || !strings.Contains(r.Problem.Message, "fairlead speaks to") || r.Problem.Hint == "" {
			t.Errorf("%s: %+v", agent, r.Problem)
		}
	}
}

// If codex has no named profiles, a session that needs one is not begun, because the oldest
// codex would ignore the name.
func TestThreadIsNotOpenedWithoutItsPermissionProfile(t *testing.T) {
	for _, version := range []string{"0.125.0", "0.130.0", "0.132.0"} {
		in := PumpInput{State: PumpState{Cursor: protocol.Cursor{Incarnation: 1}}, Thread: ThreadSpec{CWD: "/w", Sandbox: "read-only", Permissions: "fl", ApprovalPolicy: "never"}}
		s := perform(t, in, Options{})
		s.hear(`{"id":"g1.p9.initialize.0","result":{"userAgent":"f/` + version + ` (x)"}}`)
		if r := s.result(Refused); r.Problem.Kind != "version" || strings.Contains(strings.Join(s.said, "\n"), wire.MethodStart) {
			t.Errorf("%s: %+v, said %q", version, r.Problem, s.said)
		}
	}
}
