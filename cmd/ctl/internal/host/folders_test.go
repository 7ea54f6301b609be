package host

import (
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestFoldersThatNobodyTouchesAreNamedWithWhatAPersonCanDo(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	shown := func(h protocol.HostView) string {
		var out strings.Builder
		showUnknownFolders(core.NewPrinter(&out, false), h)
		return out.String()
	}
	h := protocol.HostView{Name: "web-1"}
	if got := foldersText(h) + shown(h); got != "" {
		t.Errorf("nobody has looked, and it says %q", got)
	}
	h.Folders = &protocol.HostFolders{At: at, Dir: "/srv/it's\x1b[2J/sessions"}
	if got := foldersText(h) + shown(h); got != "looked at 2026-01-02 03:04:05" {
		t.Errorf("of none it says %q", got)
	}
	h.Folders.Unknown = 3
	h.UnknownFolders = []protocol.UnknownFolder{{Session: "a", Generation: 17, Since: at, Why: "nobody knows it"}, {Session: "b", Why: "it does not say"}}
	got := shown(h)
	for _, want := range []string{"3 folders", "left alone", "a ", "17", "nobody knows it", "it does not say", "and 1 more", "`ctl host exec web-1 -- ls -la '/srv/it'\\''s"} {
		if !strings.Contains(got, want) {
			t.Errorf("it does not say %q: %s", want, got)
		}
	}
	if strings.Contains(got, "\x1b") {
		t.Errorf("what the host said reaches the terminal: %q", got)
	}
	if text := foldersText(h); text != "looked at 2026-01-02 03:04:05, 3 of them unknown" {
		t.Errorf("it says %q", text)
	}
}
