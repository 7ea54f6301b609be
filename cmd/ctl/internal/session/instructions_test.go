package session

import (
	"bytes"
	"strings"
	"testing"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestInstructionsInTheStoreAreNotTakenForNone(t *testing.T) {
	long := &protocol.GivenText{Blob: "instructions/s1", Digest: "d", Bytes: 5000}
	for name, c := range map[string]struct {
		given *protocol.GivenView
		want  []string
	}{
		"none":              {nil, []string{"codex is told nothing but"}},
		"short":             {&protocol.GivenView{Agents: protocol.Give("be brief")}, []string{"# session\nbe brief"}},
		"long":              {&protocol.GivenView{Agents: long}, []string{"# session\n(5000 bytes are given: the text is shown once a host is prepared)"}},
		"long for the base": {&protocol.GivenView{Base: long}, []string{"# base instructions, in place of codex's own\n(5000 bytes are given"}},
	} {
		var out bytes.Buffer
		printInstructions(&core.Printer{W: &out}, given("s1", c.given))
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: it prints %q", name, &out)
			}
		}
		if c.given != nil && strings.Contains(out.String(), "nothing") {
			t.Errorf("%s: it says that codex is told nothing: %q", name, &out)
		}
	}
}
