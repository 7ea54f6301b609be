package activities

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"testing"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

// wrapped has the session's codex started by a script. In the script, "$@" is
// codex's command line.
func (k *talk) wrapped(script string) {
	k.t.Helper()
	at := path.Join(k.layout.Dir, "wrapped")
	k.sh(`printf '#!/bin/sh\nset -- %s "$@"\n%s\n' "$2" "$3" >"$1"; chmod 700 "$1"`, at, k.layout.Codex, script)
	k.layout.Codex, k.layout.CodexSums = at, "" // nobody knows its digest
}

// Codex's stderr goes to a file on the host, so it cannot fill an SSH window that
// codex's answers need. A long line cannot fill it either.
func TestALongLineAndAFloodOnStderrPassOverSSH(t *testing.T) {
	const flood = 64 << 20
	text := strings.Repeat("0123456789abcdef", 3<<16) // 3 MiB
	b := newBed(t, readyHost(t))
	k := b.prepared("flooded", "", "danger-full-access", b.plantable(scriptedmodel.Serve(t, "rules: [{reply: "+text+"}]")))
	k.wrapped(fmt.Sprintf(`yes "codex complains" | head -c %d >&2 & exec "$@"`, flood))
	k.start()
	out := k.pump(conversation.TurnEnded, k.message("speak"))
	if out.Pump.Turn.Status != "completed" || !out.Pump.Turn.FinalTruncated {
		t.Errorf("turn %s", out.Pump.Turn.Status)
	}
	whole := false
	for _, e := range readAll(t, k.store, "flooded", 1) {
		whole = whole || e.Type == protocol.EntryAssistant && e.Text == text
	}
	if !whole {
		t.Error("the long message is not on record as it was said")
	}
	await(t, "the flood", func() bool {
		size, err := strconv.Atoi(strings.TrimSpace(k.sh(`stat -c %s "$1/err.log"`, folder.ServerDir(k.layout, 1))))
		return err == nil && size >= flood
	})
	if out := k.pump(conversation.TurnEnded, k.message("again")); out.Pump.Turn.Status != "completed" {
		t.Errorf("behind the flood: turn %s", out.Pump.Turn.Status)
	}
}

// A login is not lost if codex takes long to end and rotates the login at the end: the
// login is saved before anything is wiped.
func TestALoginThatIsRotatedByACodexThatEndsSlowlyIsSaved(t *testing.T) {
	b := newBed(t, readyHost(t))
	k, d := b.held("slow-end", scriptedmodel.Serve(t, "rules: [{reply: hello}]"))
	late := path.Join(k.layout.Dir, "late.json")
	k.sh(`printf %s "$2" >"$1"`, late, login("acct-1", 1))
	k.wrapped(`trap 'sleep 2; cat ` + late + ` >"$CODEX_HOME/auth.json"; exit 0' TERM; exec 3<&0; "$@" <&3 & wait`)
	k.start()
	k.pump(conversation.TurnEnded, k.message("hi"))
	if now := d.state(); now.Generation != 1 || now.Rotated != nil {
		t.Fatalf("the seed says %+v", now)
	}
	if out, err := k.close(k.closing()); err != nil || !out.Wiped || !out.Removed || out.Unsaved {
		t.Errorf("closed: %+v, %v", out, err)
	}
	k.savedIs(d, 1)
	if n := marked(k.claim.Session); n != 0 {
		t.Errorf("%d processes are left", n)
	}
}
