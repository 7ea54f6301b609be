package activities

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestStderrSaysWhyCodexDiedOrIsMute(t *testing.T) {
	const refused = `echo '2026-11-28T18:00:00Z ERROR codex_login: Your access token could not be refreshed because your refresh token was revoked.' >&2`
	for name, c := range map[string]struct {
		script string
		reason conversation.PumpReason
	}{
		"dies": {refused + "\nexit 1", conversation.ProcessEnded},
		"mute": {refused + "\nwhile read -r line; do :; done", conversation.TimedOut},
	} {
		t.Run(name, func(t *testing.T) {
			k := handMade(t, name, scriptedmodel.Serve(t, `rules: []`))
			k.layout.Codex = filepath.Join(t.TempDir(), "codex")
			if err := os.WriteFile(k.layout.Codex, []byte("#!/bin/sh\n"+c.script+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			k.start()
			in := k.input(k.message("hello"))
			in.Pump.Limits.StartUp = time.Second
			out, err := pumps.RunPump(t.Context(), k.set.Pump.Site, in, quiet(1))
			if err != nil {
				t.Fatal(err)
			}
			k.took(out, c.reason)
			if p := out.Pump.Problem; p == nil || p.Kind != protocol.EndAuth || p.Hint != protocol.HintOf(protocol.EndAuth) || !strings.Contains(p.Message, "was revoked") {
				t.Errorf("problem %+v", p)
			}
		})
	}
}
