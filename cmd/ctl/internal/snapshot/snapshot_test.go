package snapshot

import (
	"bytes"
	"testing"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestWhatIsPrunedIsSaidInWords(t *testing.T) {
	for want, c := range map[string]struct {
		in  protocol.PruneSnapshotsInput
		out protocol.PruneSnapshotsResult
	}{
		"a\n1 snapshot dropped, 1.0 KiB of 2 packs freed, no packs condemned for a later prune\n":                      {out: protocol.PruneSnapshotsResult{Snapshots: []string{"a"}, Freed: 1024, Packs: 2}},
		"no snapshots would be dropped, 0 B of no packs would be freed, 1 pack would be condemned for a later prune\n": {in: protocol.PruneSnapshotsInput{DryRun: true}, out: protocol.PruneSnapshotsResult{Condemned: 1}},
	} {
		var b bytes.Buffer
		if printPruned(core.NewPrinter(&b, false), c.in, c.out); b.String() != want {
			t.Errorf("%q, want %q", b.String(), want)
		}
	}
}
