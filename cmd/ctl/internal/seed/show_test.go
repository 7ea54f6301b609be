package seed

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
)

// A verification without a clear result does not change a seed's health, so its result is
// shown separately.
func TestASeedIsShownWithItsNewestVerification(t *testing.T) {
	shown := func(c *protocol.SeedCheck) string {
		var b bytes.Buffer
		showSeed(core.NewPrinter(&b, false), protocol.SeedView{Name: "team", Kind: "chatgpt", Health: protocol.Healthy, Check: c})
		return strings.Join(strings.Fields(b.String()), " ")
	}
	at := time.Now().Add(-3*time.Minute - time.Second)
	got := shown(&protocol.SeedCheck{At: at, By: "ann@desk", Verdict: "unknown", Reason: "the issuer answered\n503", Hint: "ask again later"})
	if want := "checked unknown, 3m ago, by ann@desk: the issuer answered 503 (ask again later) shared by"; !strings.Contains(got, want) {
		t.Errorf("it is shown as %s without %q", got, want)
	}
	if got := shown(&protocol.SeedCheck{At: at, Verdict: "alive"}); !strings.Contains(got, "checked alive, 3m ago shared by") {
		t.Errorf("one that found it alive is shown as %s", got)
	}
	if got := shown(nil); strings.Contains(got, "checked") {
		t.Errorf("a verification that never was is shown: %s", got)
	}
}
