package activities

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/policy"
	"fairlead.dev/fairlead/internal/protocol"
)

const ownFiles = `
rules:
  - name: links are made
    when: cwd == work && words.starts(["ln", "-s"])
    outcome: accept
  - name: its own files
    when: kind == "file_change" && paths.under(work)
    outcome: accept_for_session
`

// The model makes a link to a folder outside, and then patches a file "in" it.
func TestAPatchThroughALinkOutOfTheWorkFolderIsNotAcceptedByRule(t *testing.T) {
	for name, spec := range map[string]func(*testing.T) protocol.HostSpec{
		"local": func(*testing.T) protocol.HostSpec { return protocol.HostSpec{Name: protocol.LocalHost} },
		"sshd":  func(t *testing.T) protocol.HostSpec { return hosttest.StartSSHD(t, hosttest.Options{}).Spec() },
	} {
		t.Run(name, func(t *testing.T) {
			outside := t.TempDir()
			model := scriptedmodel.Serve(t, fmt.Sprintf(`
rules:
  - when: {turn: 1}
    steps:
      - - patch: "*** Begin Patch\n*** Add File: sub/mine\n+mine\n*** End Patch\n"
      - - shell: {cmd: 'ln -s %s x', escalate: true, justification: may I}
      - - patch: "*** Begin Patch\n*** Add File: x/authorized_keys\n+mallory\n*** End Patch\n"
      - - say: done
`, outside))
			k, input := judgedTalkOn(t, "through", model, spec(t), ownFiles)
			out := k.run(input(k.message("go")), 1, conversation.RequestsOpen)
			if len(out.Pump.Requests) != 1 || out.Pump.Requests[0].Ruling == nil {
				t.Fatalf("asked: %+v", out.Pump.Requests)
			}
			r := out.Pump.Requests[0]
			if got := r.Ruling; got.Rule != policy.RulePlace || !strings.Contains(got.Reason, `"its own files" would accept by name`) || !strings.Contains(got.Reason, outside) {
				t.Errorf("on record: %+v", got)
			}
			if !k.exists("sub/mine") || !k.exists("x") {
				t.Error("what was accepted was not done")
			}
			if _, err := os.Stat(filepath.Join(outside, "authorized_keys")); err == nil {
				t.Error("codex wrote outside, and nobody was asked")
			}
			got := k.decisions()
			if len(got) != 2 || got[0].Data["rule"] != "its own files" || got[0].Data["scope"] != "once" {
				t.Errorf("decisions: %+v", got)
			}
			// The patch itself does write through the link.
			out = k.run(input(conversation.Send{ID: "d1", Kind: conversation.SendDecision, RPC: r.RPC, Incarnation: r.Incarnation, RequestKind: r.Kind, Method: r.Method, Outcome: protocol.Accept}), 1, conversation.TurnEnded)
			if _, err := os.Stat(filepath.Join(outside, "authorized_keys")); err != nil {
				t.Errorf("a person accepted it: %v", err)
			}
		})
	}
}

// judgeOn returns a judge of a session on this machine, and its work folder.
func judgeOn(t *testing.T, text string, attempt int32) (judge func(conversation.Asked) conversation.Verdict, work string, b *bed, in pumps.RunPumpInput) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b = newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: dir})
	if err := site.KeepPolicies(t.Context(), b.set.site, []string{text}); err != nil {
		t.Fatal(err)
	}
	in = pumps.RunPumpInput{
		Claim: protocol.Claim{Session: "s", Host: b.spec, Generation: 1, Pump: 1}, Layout: folder.LayoutOf(dir, "s"),
		Pump:     conversation.PumpInput{Prefix: "g1.p1"},
		Policies: []site.PolicyRef{{Digest: site.PolicyDigest(text), Of: "session"}},
	}
	for _, made := range []string{in.Layout.WorkDir + "/sub", dir + "/out"} {
		if err := os.MkdirAll(made, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	judge, _, err = pumps.Judge(t.Context(), b.set.site, in, attempt)
	if err != nil {
		t.Fatal(err)
	}
	return judge, in.Layout.WorkDir, b, in
}

func changed(id string, changes ...conversation.AskedChange) conversation.Asked {
	return conversation.Asked{ID: id, Kind: protocol.KindFileChange, Changes: changes}
}

func TestARuleAboutPathsHoldsOnlyForWhatWillBeChanged(t *testing.T) {
	const text = ownFiles + `
  - name: a folder for itself
    when: kind == "permissions" && wants.write.under(work)
    outcome: accept_for_session
  - name: lists here
    when: cwd.under(work) && words == ["ls"]
    outcome: accept_for_session
  - name: never there
    when: paths.exists(p, p.matches("/locked(/|$)"))
    outcome: decline
    reason: locked
`
	judge, work, _, _ := judgeOn(t, text, 1)
	root := strings.TrimSuffix(work, "/sessions/s/work")
	for name, to := range map[string]string{
		"dir": root + "/out", "in": "sub", "file": root + "/out/file", "loop": "loop", "gate": "sub/locked", "sub/back": "../sub",
	} {
		if err := os.Symlink(to, filepath.Join(work, name)); err != nil {
			t.Fatal(err)
		}
	}
	// Outside, a link leads back into the work folder.
	if err := os.Symlink(work+"/sub/a", root+"/out/back"); err != nil {
		t.Fatal(err)
	}
	command := func(cwd string) conversation.Asked {
		return conversation.Asked{Kind: protocol.KindCommand, Command: "ls", CWD: cwd}
	}
	grant := func(path string) conversation.Asked {
		return conversation.Asked{Kind: protocol.KindPermissions, Permissions: []byte(`{"fileSystem":{"write":["` + path + `"]}}`)}
	}
	one := func(path, kind string) conversation.Asked {
		return changed("", conversation.AskedChange{Path: path, Kind: kind})
	}
	for i, c := range []struct {
		asked      conversation.Asked
		want       protocol.Outcome
		forSession bool
	}{
		{one(work+"/sub/new", "add"), protocol.Accept, false},
		{one(work+"/new/deep/x", "add"), protocol.Accept, false},
		{one(work+"/in/new", "add"), protocol.Accept, false}, // a link that stays inside
		{one(work+"/sub/back/back/x", "add"), protocol.Accept, false},
		{one("sub/new", "add"), protocol.Accept, false}, // relative to the work folder
		{one("dir/new", "add"), "", false},
		{one(work+"/dir/new", "add"), "", false},
		{one(work+"/file", "update"), "", false}, // the file itself is a link
		{one(work+"/loop/x", "add"), "", false},
		{one(work+"/dir/back", "delete"), "", false}, // what is removed lies outside, though it leads inside
		{changed("", conversation.AskedChange{Path: work + "/sub/a", Kind: "update", MovedTo: work + "/dir/a"}), "", false},
		{changed("", conversation.AskedChange{Path: work + "/dir/a", Kind: "update", MovedTo: work + "/sub/a"}), "", false},
		{changed("", conversation.AskedChange{Path: work + "/sub/a", Kind: "add"}, conversation.AskedChange{Path: work + "/dir/a", Kind: "add"}), "", false},
		{conversation.Asked{Kind: protocol.KindFileChange, GrantRoot: work + "/dir", Changes: []conversation.AskedChange{{Path: work + "/sub/a", Kind: "add"}}}, "", false},
		{grant(work + "/sub"), protocol.Accept, false},
		{grant(work + "/dir"), "", false},
		{command(work), protocol.Accept, true},
		{command(work + "/sub"), protocol.Accept, false}, // the model could replace it
		{command(work + "/dir"), "", false},
		{one(root+"/elsewhere/locked", "add"), protocol.Decline, false}, // by name
	} {
		c.asked.ID = fmt.Sprint(i)
		if got := judge(c.asked); got.Outcome != c.want || got.ForSession != c.forSession {
			t.Errorf("%d, %+v: %+v", i, c.asked, got)
		}
	}
	// Rules that decline hold for a place, too.
	if got := judge(conversation.Asked{ID: "place", Kind: protocol.KindPermissions, Permissions: []byte(`{"fileSystem":{"read":["` + work + `/gate/x"]}}`)}); got.Outcome != protocol.Decline || got.Rule != "never there" {
		t.Errorf("by place: %+v", got)
	}
}

// Rules that look at no path do not need the host.
func TestWhereTheHostDoesNotAnswerOnlyRulesWithoutPathsAccept(t *testing.T) {
	const text = ownFiles + "  - {name: says hello, when: 'words == [\"true\"]', outcome: accept}\n"
	judge, work, b, in := judgeOn(t, strings.Replace(text, "cwd == work && words", "words[0] == \"ln\" && cwd == work && words", 1), 1)
	words := conversation.Asked{ID: "1", Kind: protocol.KindCommand, Command: "true", CWD: work}
	if err := b.pool.Close(); err != nil {
		t.Fatal(err)
	}
	if got := judge(words); got.Outcome != protocol.Accept || got.Rule != "says hello" {
		t.Errorf("without paths: %+v", got)
	}
	got := judge(changed("2", conversation.AskedChange{Path: work + "/a", Kind: "add"}))
	if got.Outcome != "" || got.Rule != policy.RulePlace || !strings.Contains(got.Reason, "where its paths lead is unknown") {
		t.Errorf("with paths: %+v", got)
	}
	var many []conversation.AskedChange
	for i := range hostexec.MaxResolve + 1 {
		many = append(many, conversation.AskedChange{Path: fmt.Sprintf("%s/%d", work, i), Kind: "add"})
	}
	more, _, err := pumps.Judge(t.Context(), b.another().set.site, in, 1)
	if err != nil {
		t.Fatal(err)
	}
	if got := more(changed("3", many...)); got.Outcome != "" || got.Rule != policy.RulePlace || !strings.Contains(got.Reason, "at most 1000") {
		t.Errorf("too many: %+v", got)
	}
	if got := more(changed("4", many[:100]...)); got.Outcome != protocol.Accept {
		t.Errorf("not too many: %+v", got)
	}
}

// A pump that is repeated must not judge anew: the link may have been changed since, and
// the transcript of both attempts is one.
func TestEveryAttemptOfAPumpGivesTheSameVerdictAboutPaths(t *testing.T) {
	judge, work, b, in := judgeOn(t, ownFiles, 1)
	if err := os.Mkdir(work+"/x", 0o755); err != nil {
		t.Fatal(err)
	}
	asked := changed("1/7", conversation.AskedChange{Path: work + "/x/a", Kind: "add"})
	first := judge(asked)
	if err := os.Remove(work + "/x"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/", work+"/x"); err != nil {
		t.Fatal(err)
	}
	again, _, err := pumps.Judge(t.Context(), b.another().set.site, in, 2)
	if err != nil {
		t.Fatal(err)
	}
	if second := again(asked); first.Outcome != protocol.Accept || second != first {
		t.Errorf("first %+v, then %+v", first, second)
	}
	repeats := in // by the workflow, after the attempts of one activity
	repeats.Claim.Pump++
	repeats.Pump.Again++
	third, _, err := pumps.Judge(t.Context(), b.another().set.site, repeats, 1)
	if err != nil {
		t.Fatal(err)
	}
	if v := third(asked); v != first {
		t.Errorf("first %+v, and in the pump that repeats it %+v", first, v)
	}
	asked.ID = "1/8"
	if other := again(asked); other.Outcome != "" {
		t.Errorf("another request of the same text: %+v", other)
	}
	// An attempt that was replaced accepts nothing, and leaves no verdict.
	asked.ID = "1/9"
	if late := judge(asked); late.Outcome != "" || !strings.Contains(late.Reason, "unknown") {
		t.Errorf("an old attempt: %+v", late)
	}
	if _, err := b.store.Get(t.Context(), pumps.VerdictKey(in, "1/9")); err == nil {
		t.Error("an old attempt left its verdict")
	}
}
