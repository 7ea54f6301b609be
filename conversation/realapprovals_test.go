package conversation

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

// The things that the model tries in the canary, in this order.
const (
	tryEscape  = iota // a command that asks to leave the sandbox
	tryTouch          // a command that writes outside without asking to leave
	tryInside         // a change in the work folder
	tryOutside        // a change outside
	tries
)

var tryWords = [tries]string{"escape", "touch", "inside", "outside"}

// A canaryCase lists, for a sandbox and an approval policy, the tries for which codex asks,
// and the tries that take effect without asking. versions.go says where a version differs.
type canaryCase struct {
	sandbox, policy string
	asked, done     [tries]bool
}

var canaries = []canaryCase{
	{"read-only", "untrusted", [tries]bool{true, true, true, true}, [tries]bool{}},
	{"read-only", "on-request", [tries]bool{true, false, true, true}, [tries]bool{}},
	{"read-only", "never", [tries]bool{}, [tries]bool{}},
	{"workspace-write", "untrusted", [tries]bool{true, true, true, true}, [tries]bool{}},
	{"workspace-write", "on-request", [tries]bool{true, false, false, true}, [tries]bool{tryInside: true}},
	{"workspace-write", "never", [tries]bool{}, [tries]bool{tryInside: true}},
	{"danger-full-access", "untrusted", [tries]bool{true, true, true, true}, [tries]bool{}},
	// Without a sandbox there is nothing to ask for.
	{"danger-full-access", "on-request", [tries]bool{}, [tries]bool{true, true, true, true}},
	{"danger-full-access", "never", [tries]bool{}, [tries]bool{tryTouch: true, tryInside: true, tryOutside: true}},
}

// asksUnderEachPolicyAndSandbox is the canary of approvals: with the settings that we send,
// codex really asks before it does something that is not allowed.
func asksUnderEachPolicyAndSandbox(t *testing.T, c *codex) {
	if !c.has(wire.UntrustedAsks) {
		c.note = "yes, but under untrusted leaving the sandbox is refused unasked"
	}
	canary(t, c, func(one canaryCase, model *scriptedmodel.Server, _ string) *talk {
		k := c.talk(t, model)
		k.spec.Sandbox = one.sandbox
		return k
	})
}

// asksUnderTheGeneratedProfile tries the same under the profile of a session with a seed.
// This profile is planted with the seed and replaces a sandbox mode.
func asksUnderTheGeneratedProfile(t *testing.T, c *codex) {
	if !c.has(wire.NamedProfiles) {
		c.note = "no session under a profile"
		return
	}
	if !c.has(wire.UntrustedAsks) {
		c.note = "yes, but under untrusted leaving the sandbox is refused unasked"
	}
	pool := hostexec.NewPool(hostexec.PoolOptions{})
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	local, err := pool.Host(protocol.HostSpec{Name: protocol.LocalHost})
	if err != nil {
		t.Fatal(err)
	}
	canary(t, c, func(one canaryCase, model *scriptedmodel.Server, dir string) *talk {
		if seeds.Profile(one.sandbox) == "" {
			return nil
		}
		h := newHomeIn(t, model, dir) // below /tmp no command starts in some versions
		h.codex = c.version
		bundle, err := seeds.Pack(h.dir)
		if err != nil {
			t.Fatal(err)
		}
		planted, err := seeds.Plant(t.Context(), local, seeds.PlantSpec{CodexHome: h.dir, Within: dir, Bundle: bundle, Sandbox: one.sandbox, WorkDir: h.work})
		if err != nil || planted.Permissions == "" {
			t.Fatalf("planted %+v, %v", planted, err)
		}
		k := talkAt(t, h)
		k.spec.Sandbox, k.spec.Permissions = one.sandbox, planted.Permissions
		return k
	})
}

// canary tries each case in a session that open makes. It skips the case if open returns
// nil. The folder that open gets contains the files outside the sandbox too.
func canary(t *testing.T, c *codex, open func(canaryCase, *scriptedmodel.Server, string) *talk) {
	away := outside(t)
	for _, one := range canaries {
		dir := filepath.Join(away, one.sandbox+"-"+one.policy)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		k := open(one, scriptedmodel.Serve(t, fmt.Sprintf(`
rules:
  - when: {exact: escape}
    steps: [{shell: {cmd: "touch %[1]s/escape", escalate: true, justification: why}}, {say: done}]
  - when: {exact: touch}
    steps: [{shell: "touch %[1]s/touch"}, {say: done}]
  - when: {exact: inside}
    steps: [{patch: "*** Begin Patch\n*** Add File: inside\n+hi\n*** End Patch\n"}, {say: done}]
  - when: {exact: outside}
    steps: [{patch: "*** Begin Patch\n*** Add File: %[1]s/outside\n+hi\n*** End Patch\n"}, {say: done}]
`, dir)), dir)
		if k == nil {
			continue
		}
		k.spec.ApprovalPolicy = one.policy
		for n := range tryWords {
			k.tries(one, n, dir, c)
		}
		k.p.kill()
	}
}

// tries lets the model try one thing, and declines its requests.
func (k *talk) tries(one canaryCase, n int, dir string, c *codex) {
	t, word := k.t, tryWords[n]
	t.Helper()
	asked, made := one.asked[n], filepath.Join(dir, word)
	if n == tryEscape && one.policy == "untrusted" && !c.has(wire.UntrustedAsks) {
		asked = false
	}
	if n == tryInside {
		made = filepath.Join(k.h.work, word)
	}
	r := k.run(t.Context(), k.input(turn(n+1, "m-"+word, word)))
	if got := r.Reason == RequestsOpen; got != asked {
		t.Errorf("%s, %s, %s: asked: %v; the pump returned for %s", one.sandbox, one.policy, word, got, r.Reason)
	}
	for i, q := range r.Requests {
		if kind := []protocol.RequestKind{protocol.KindCommand, protocol.KindCommand, protocol.KindFileChange, protocol.KindFileChange}[n]; q.Kind != kind {
			t.Errorf("%s, %s, %s: asked for a %s", one.sandbox, one.policy, word, q.Kind)
		}
		r = k.pump(TurnEnded, decide(fmt.Sprint("d-", n, i), q, protocol.Decline))
	}
	if r.Turn == nil || r.Turn.Status != "completed" {
		t.Errorf("%s, %s, %s: turn %+v", one.sandbox, one.policy, word, r.Turn)
	}
	if did := exists(made); did != one.done[n] {
		t.Errorf("%s, %s, %s: done, though nobody agreed: %v, want %v", one.sandbox, one.policy, word, did, one.done[n])
	}
}

func asksForSafeCommands(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, `
rules:
  - steps:
      - shell: {cmd: "echo hi", escalate: true, justification: why}
      - say: done
`)
	k := c.talk(t, s)
	want := TurnEnded
	if c.has(wire.SafeIsAsked) {
		want = RequestsOpen
	} else {
		c.note = "no: they run"
	}
	k.pump(want, turn(1, "m-1", "go"))
}

func acceptedForSessionIsNotAskedAgain(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, `
rules:
  - steps:
      - shell: {cmd: "touch made; echo again", escalate: true, justification: why}
      - say: "{{ .LastToolOutput }}"
`)
	k := c.talk(t, s)
	r := k.pump(RequestsOpen, turn(1, "m-1", "go"))
	d := decide("d", r.Requests[0], protocol.Accept)
	d.ForSession = true
	k.pump(TurnEnded, d)
	if r = k.pump(TurnEnded, turn(2, "m-2", "go")); !strings.Contains(r.Turn.FinalText, "again") {
		t.Errorf("turn %+v", r.Turn)
	}
}

// codex remembers a file change by its paths. If codex were told to accept a change for the
// session, it would also write any later change to the same file.
func changeAcceptedForSessionIsThatChange(t *testing.T, c *codex) {
	name := filepath.Join(outside(t), "f")
	k := c.talk(t, scriptedmodel.Serve(t, fmt.Sprintf(`
rules:
  - when: {exact: first}
    steps: [{patch: "*** Begin Patch\n*** Add File: %[1]s\n+harmless\n*** End Patch\n"}, {say: done}]
  - steps: [{patch: "*** Begin Patch\n*** Update File: %[1]s\n@@\n-harmless\n+evil\n*** End Patch\n"}, {say: done}]
`, name)))
	r := k.pump(RequestsOpen, turn(1, "m-1", "first"))
	first := one(t, r, protocol.KindFileChange, "accept accept_for_session decline cancel")
	d := decide("d-1", first, protocol.Accept)
	d.ForSession = true
	k.pump(TurnEnded, d)
	r = k.pump(RequestsOpen, turn(2, "m-2", "then"))
	if then := one(t, r, protocol.KindFileChange, "accept accept_for_session decline cancel"); then.Digest == first.Digest {
		t.Error("another change has the same digest")
	}
	k.pump(TurnEnded, decide("d-2", r.Requests[0], protocol.Decline))
	if got, err := os.ReadFile(name); string(got) != "harmless\n" {
		t.Errorf("the file says %q (%v)", got, err)
	}
}

func cancelledApprovalEndsTheTurn(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, `
rules:
  - steps:
      - shell: {cmd: "touch made", escalate: true, justification: why}
      - say: never
`)
	k := c.talk(t, s)
	r := k.pump(RequestsOpen, turn(1, "m-1", "go"))
	r = k.pump(TurnEnded, decide("d", r.Requests[0], protocol.Cancel))
	if r.Turn.Status != "interrupted" || r.Turn.FinalText != "" {
		t.Errorf("turn %+v", r.Turn)
	}
	if _, err := os.Stat(filepath.Join(k.h.work, "made")); !os.IsNotExist(err) {
		t.Errorf("it was run (%v)", err)
	}
}

const toolScript = `
rules:
  - steps:
      - call: {name: lookup_ticket, arguments: {id: A1}}
      - say: "got {{ .LastToolOutput }}"
`

func ourToolIsCalled(t *testing.T, c *codex) {
	k := c.talk(t, scriptedmodel.Serve(t, toolScript))
	l := c.line(t, k)
	thread := l.thread(map[string]any{"dynamicTools": []any{map[string]any{
		"type": "function", "name": "lookup_ticket", "description": "finds a ticket",
		"inputSchema": map[string]any{"type": "object", "properties": map[string]any{"id": map[string]any{"type": "string"}}},
	}}})
	for _, ticket := range []string{"first", "after a resume"} {
		id := l.turn(thread, "look it up")
		var p struct {
			Tool      string
			Arguments struct{ ID string }
		}
		asked := l.answer("item/tool/call", map[string]any{"success": true, "contentItems": []wire.TextInput{{Type: "inputText", Text: ticket}}})
		if err := json.Unmarshal(asked, &p); err != nil || p.Tool != "lookup_ticket" || p.Arguments.ID != "A1" {
			t.Errorf("asked %s", asked)
		}
		if got := l.ended(id, "completed"); got != "got "+ticket {
			t.Errorf("the model had %q", got)
		}
		k.restart()
		l = c.line(t, k)
		l.must(wire.MethodResume, map[string]any{"threadId": thread, "excludeTurns": true, "cwd": k.h.work, "approvalPolicy": "on-request", "sandbox": "workspace-write"}, nil)
	}
}

// configure adds to the config. The first word of each line is a table's name.
func (k *talk) configure(text string) {
	k.t.Helper()
	k.p.kill()
	name := filepath.Join(k.h.dir, "config.toml")
	old, err := os.ReadFile(name)
	if err == nil {
		err = os.WriteFile(name, []byte(strings.Replace(text, "…", string(old), 1)), 0o600)
	}
	if err != nil {
		k.t.Fatal(err)
	}
	k.p = k.h.start()
}

func profileHolds(t *testing.T, c *codex) {
	k := c.talk(t, scriptedmodel.Serve(t, `
rules:
  - steps:
      - shell: {cmd: "cat ../codex-home/secret || echo refused; echo fine > written; cat written"}
      - say: "{{ .LastToolOutput }}"
`))
	k.spec.Permissions = "fl"
	if !c.has(wire.NamedProfiles) {
		c.note = "no session under a profile"
		if r := k.pump(Refused, turn(1, "m-1", "go")); r.Problem.Kind != "version" {
			t.Errorf("problem %+v", r.Problem)
		}
		// It is correct that the thread is not opened: codex would refuse the name or
		// ignore it.
		l := c.line(t, c.talk(t, scriptedmodel.Serve(t, `rules: []`)))
		err := l.call(wire.MethodStart, map[string]any{"cwd": k.h.work, "approvalPolicy": "never", "permissions": "fl"}, nil)
		if ignored := c.version == wire.OldestVersion; ignored != (err == nil) {
			t.Errorf("a thread with a profile's name: %v", err)
		}
		return
	}
	secret := filepath.Join(k.h.dir, "secret")
	if err := os.WriteFile(secret, []byte("the secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	k.configure(fmt.Sprintf("default_permissions = \"fl\"\n…\n[permissions.fl]\nextends = \":workspace\"\n[permissions.fl.filesystem]\n%q = \"deny\"\n", secret))
	if !c.has(wire.ProfileInTmp) {
		c.note = "no command below /tmp"
	}
	for n := range 2 { // started, and resumed
		r := k.pump(TurnEnded, turn(n+1, fmt.Sprint("m-", n), "go"))
		got := r.Turn.FinalText
		if works := strings.Contains(got, "refused") && strings.Contains(got, "fine"); works != c.has(wire.ProfileInTmp) || strings.Contains(got, "the secret") {
			t.Errorf("turn %d: %q", n+1, got)
		}
		k.restart()
	}
}
