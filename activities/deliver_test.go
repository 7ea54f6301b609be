package activities

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

// A shopTest is a tool shop on a real host, and its work folder there.
type shopTest struct {
	*bed
	work   string
	secret string
	limits site.DeliverLimits
	calls  int
}

func newShop(t *testing.T) *shopTest {
	root := t.TempDir()
	s := &shopTest{bed: newBed(t, hosttest.StartSSHD(t, hosttest.Options{}).Spec()), work: filepath.Join(root, "sessions", "s", "work"), secret: "made-up-secret-0123456789"}
	if err := os.MkdirAll(s.work, 0o700); err != nil {
		t.Fatal(err)
	}
	return s
}

// shop returns another shop, as the next pump would have.
func (s *shopTest) shop() *pumps.ToolShop {
	root := filepath.Dir(filepath.Dir(filepath.Dir(s.work)))
	in := pumps.RunPumpInput{Claim: protocol.Claim{Session: "s", Host: s.spec}, Layout: protocol.Layout{Root: root, Dir: filepath.Dir(s.work), WorkDir: s.work, OwnWork: true}}
	return &pumps.ToolShop{Site: s.set.site, Session: "s", Spec: in.Claim.Host, Layout: in.Layout, Limits: s.limits.OrDefaults(),
		Hide: site.Secrets{All: seeds.NewRedactor("seed", []seeds.Secret{seeds.NewSecret(s.secret)})}}
}

func (s *shopTest) write(name string, data []byte) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.work, name), data, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *shopTest) nextCall(args any) conversation.ToolCall {
	s.t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		s.t.Fatal(err)
	}
	s.calls++
	return conversation.ToolCall{ID: fmt.Sprintf("i1.%d", 1000*s.calls), Tool: protocol.ToolDeliver, Args: raw, Turn: 1}
}

func (s *shopTest) reply(shop *pumps.ToolShop, call conversation.ToolCall) conversation.ToolReply {
	s.t.Helper()
	r, err := shop.Call(s.t.Context(), call)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func (s *shopTest) list() []protocol.Deliverable {
	s.t.Helper()
	list, err := records.ListDeliverables(s.t.Context(), s.store, "s")
	if err != nil {
		s.t.Fatal(err)
	}
	return list
}

// Every call gets exactly one reply, also a refused one, and paths that leave the
// folder are refused.
func TestEveryDeliverableCallGetsOneReplyAndEscapesAreRefused(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.limits.MaxBytes = 1000
	s.write("report.md", []byte("fine"))
	s.write("big", make([]byte, 1001))
	s.write("leak.env", []byte("TOKEN="+s.secret+"\n"))
	outside := filepath.Join(filepath.Dir(s.work), "auth.json")
	for _, err := range []error{
		os.WriteFile(outside, []byte("outside"), 0o600), os.Symlink(outside, s.work+"/link"), os.Symlink("..", s.work+"/up"),
		os.Mkdir(s.work+"/folder", 0o700), syscall.Mkfifo(s.work+"/fifo", 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	type args = map[string]any
	cases := []struct {
		args args
		ok   bool
		says string
	}{
		{args{"path": "report.md"}, true, "Delivered report.md: 4 bytes, SHA-256 "},
		{args{"path": s.work + "/./report.md", "name": "other.md", "description": "what it is"}, true, "Delivered other.md"},
		{args{"path": "../auth.json"}, false, "outside of the working directory"},
		{args{"path": outside}, false, "outside of the working directory"},
		{args{"path": "/etc/passwd"}, false, "outside of the working directory"},
		{args{"path": "link"}, false, "outside of the working directory"},
		{args{"path": "up/auth.json"}, false, "outside of the working directory"},
		{args{"path": "folder"}, false, "is a directory"},
		{args{"path": "fifo"}, false, "no regular file"},
		{args{"path": "nothing"}, false, "there is no file nothing"},
		{args{"path": "big"}, false, "has 1001 bytes, and at most 1000 are taken"},
		{args{"path": "leak.env"}, false, "it holds a credential"},
		{args{"path": "report.md", "description": "the key is " + s.secret}, false, "holds a credential"},
		{args{"path": ""}, false, "path is empty"},
		{args{"path": "a\nb"}, false, "control characters"},
		{args{"path": "report.md", "name": "../x"}, false, "slash"},
		{args{"path": "report.md", "name": ".."}, false, "not one for a file"},
		{args{"path": "report.md", "description": strings.Repeat("x", pumps.MaxDeliverWords+1)}, false, "say it shorter"},
		{args{"path": 7}, false, "not as described"},
	}
	shop := s.shop()
	for _, c := range cases {
		call := s.nextCall(c.args)
		first := s.reply(shop, call)
		if first.OK != c.ok || !strings.Contains(first.Text, c.says) || strings.Contains(first.Text, s.secret) {
			t.Errorf("%v: %+v, want %q", c.args, first, c.says)
		}
		// A repeated call gets the same reply, even if the file has changed.
		if again := s.reply(s.shop(), call); !reflect.DeepEqual(again, first) {
			t.Errorf("%v: then %+v, now %+v", c.args, first, again)
		}
	}
	list := s.list()
	if len(list) != 2 || list[0].Name != "report.md" || list[1].Name != "other.md" || list[1].Path != "report.md" || list[1].Description != "what it is" || list[0].Digest != list[1].Digest {
		t.Errorf("listed %+v", list)
	}
	// A refusal stays, even if a new call would be accepted now.
	s.write("late", nil)
	s.calls = 9 // "nothing"
	call := s.nextCall(args{"path": "late"})
	if r := s.reply(s.shop(), call); r.OK || !strings.Contains(r.Text, "there is no file nothing") {
		t.Errorf("the call that was refused is answered %+v", r)
	}
	infos, err := s.store.List(t.Context(), records.DeliverablesPrefix("s")+"content/")
	if err != nil || len(infos) != 1 {
		t.Errorf("one content is stored %d times, %v", len(infos), err)
	}
}

func TestADeliverableIsStoredWholeWithVersionsAndBounds(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.limits = site.DeliverLimits{MaxBytes: 5 << 20, SessionBytes: 6 << 20, SessionCalls: 5}
	big := bytes.Repeat([]byte("0123456789abcdef"), 3<<16) // 3 MiB
	s.write("a", big)
	shop := s.shop()
	args := map[string]any{"path": "a"}
	if r := s.reply(shop, s.nextCall(args)); !r.OK {
		t.Fatalf("%+v", r)
	}
	s.reply(shop, s.nextCall(args)) // the same content again costs nothing
	s.write("a", append(big, "longer"...))
	if r := s.reply(shop, s.nextCall(args)); r.OK || !strings.Contains(r.Text, "at most 6291456 are taken") {
		t.Errorf("beyond what a session may deliver: %+v", r)
	}
	s.write("a", []byte("short"))
	s.reply(shop, s.nextCall(args))
	s.reply(shop, s.nextCall(args))
	if r := s.reply(s.shop(), s.nextCall(args)); r.OK || !strings.Contains(r.Text, "called for it 5 times") {
		t.Errorf("beyond how often it may call: %+v", r)
	}
	list := s.list()
	var versions []string
	for _, d := range list {
		versions = append(versions, fmt.Sprintf("%s.%d:%d:%v", d.Name, d.Version, d.Bytes, d.Newest))
	}
	if got := strings.Join(versions, " "); got != "a.1:3145728:false a.2:3145728:false a.3:5:false a.4:5:true" {
		t.Fatalf("listed %s", got)
	}
	d, r, err := records.OpenDeliverable(t.Context(), s.store, "s", list[0].Call)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if data, err := io.ReadAll(r); err != nil || !bytes.Equal(data, big) || d.Bytes != int64(len(big)) {
		t.Errorf("%d bytes come back, %v", len(data), err)
	}
	for _, bad := range []string{"", "../s", "i1.1/x", "content/x", "i1.999"} {
		if _, _, err := records.OpenDeliverable(t.Context(), s.store, "s", bad); err == nil {
			t.Errorf("call %q opens something", bad)
		}
	}
}

// If a worker dies after it stored a deliverable and before it replied, there is one
// deliverable, and codex gets one reply. Calls in the journal are not carried out again
// in later turns, nor for the next process.
func TestACallIsCarriedOutOnceWhoeverDies(t *testing.T) {
	model := scriptedmodel.Serve(t, `
rules:
  - when: {turn: 1}
    steps:
      - shell: echo hello > report.md
      - call: {name: deliver, arguments: {path: report.md}}
      - say: "{{ .LastToolOutput }}"
  - steps:
      - call: {name: report_progress, arguments: {text: nearly there, percent: 90}}
      - say: "{{ .LastToolOutput }}"
`)
	k := handMade(t, "hands-over", model)
	k.start()
	in := k.input(k.message("hand it over"))
	in.Pump.Thread.Tools = pumps.Tools()
	first := k.another()
	first.set.site.Delivered = func() { first.pool.Close() } // this worker cannot reach the host any more
	if _, err := pumps.RunPump(t.Context(), first.set.Pump.Site, in, quiet(1)); err == nil {
		t.Fatal("the first worker did not lose its wire")
	}
	if list, err := records.ListDeliverables(t.Context(), k.store, "hands-over"); err != nil || len(list) != 1 {
		t.Fatalf("kept %+v, %v", list, err)
	}
	out, err := pumps.RunPump(t.Context(), k.set.Pump.Site, in, quiet(2))
	if err != nil {
		t.Fatal(err)
	}
	k.took(out, conversation.TurnEnded)
	list, err := records.ListDeliverables(t.Context(), k.store, "hands-over")
	if err != nil || len(list) != 1 || list[0].Name != "report.md" || list[0].Bytes != 6 || list[0].Turn != 1 {
		t.Fatalf("delivered %+v, %v", list, err)
	}
	if want := "Delivered report.md: 6 bytes, SHA-256 " + list[0].Digest + "."; out.Pump.Turn.FinalText != want {
		t.Errorf("the model had %q, want %q", out.Pump.Turn.FinalText, want)
	}
	k.shownIsStored(k.bed)

	// Another turn, in another process, of the resumed session.
	k.kill()
	k.resume = true
	k.start()
	in = k.input(k.message("how far are you"))
	in.Pump.Thread.Tools = pumps.Tools()
	if out, err = pumps.RunPump(t.Context(), k.set.Pump.Site, in, quiet(1)); err != nil {
		t.Fatal(err)
	}
	k.took(out, conversation.TurnEnded)
	if p := out.Pump.State.Progress; p == nil || p.Text != "nearly there" || *p.Percent != 90 || p.Turn != 2 {
		t.Errorf("progress %+v", p)
	}
	if list, err := records.ListDeliverables(t.Context(), k.store, "hands-over"); err != nil || len(list) != 1 {
		t.Errorf("a line of an earlier process delivered again: %+v, %v", list, err)
	}
	states := k.states("hands-over")
	seen := false
	for _, st := range states {
		seen = seen || st.Progress != nil && st.Progress.Text == "nearly there"
	}
	if !seen {
		t.Error("viewers did not hear of the progress")
	}
}

// If a host can never give files, the call is refused and not reported as a passing
// fault.
func TestAHostThatCannotGiveFilesIsNoTrouble(t *testing.T) {
	t.Parallel()
	var no pumps.Refusal
	if err := pumps.Said(fmt.Errorf("read a: %w", fmt.Errorf("%w: no /proc", hostexec.ErrUnsupported)), "a"); !errors.As(err, &no) {
		t.Errorf("said %v", err)
	}
	if err := pumps.Said(io.ErrUnexpectedEOF, "a"); errors.As(err, &no) {
		t.Errorf("trouble is refused for good: %v", err)
	}
}
