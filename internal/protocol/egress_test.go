package protocol

import (
	"fmt"
	"strings"
	"testing"
)

func TestWhatWasCutIsCountedForItsTargetAndAddedUp(t *testing.T) {
	var pump, session EgressUse
	pump.Count(EgressEvent{Host: "github.com", Port: 443, Open: true})
	if text := pump.Text(); text != "1 connections, 0 failed, 0 refused: github.com:443 1 times (0 bytes out, 0 in)" {
		t.Errorf("without a cut: %s", text) // as it stands in recorded histories
	}
	pump.Count(EgressEvent{Host: "github.com", Port: 443, Cut: true, Sent: 7, Why: "it carried nothing for 5m0s"})
	session.Add(&pump)
	session.Add(&pump)
	if session.Cut != 2 || session.Hosts[0].Cut != 2 || session.Sent != 14 || session.LastCut != "github.com:443: it carried nothing for 5m0s" {
		t.Errorf("%+v", session)
	}
	if text := session.Text(); !strings.Contains(text, "2 cut: ") || !strings.Contains(text, "github.com:443 cut 2 times") || !strings.HasSuffix(text, "; last cut: github.com:443: it carried nothing for 5m0s") {
		t.Error(text)
	}
	if (&EgressUse{Cut: 1}).None() {
		t.Error("a cut is nothing")
	}
	// What is kept is bounded, whatever programs ask for.
	for n := range 1000 {
		pump.Count(EgressEvent{Host: fmt.Sprintf("h%d.example.com", n), Port: 443, Cut: true, Why: strings.Repeat("x", 10_000)})
	}
	if pump.Cut != 1001 || len(pump.Hosts) != mostEgressHosts || len(pump.LastCut) > maxAccountWord {
		t.Errorf("%d cut, %d hosts, %d bytes", pump.Cut, len(pump.Hosts), len(pump.LastCut))
	}
}
