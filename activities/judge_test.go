package activities

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/policy"
	"fairlead.dev/fairlead/internal/protocol"
)

const judging = `
rules:
  - name: touches here
    when: cwd == work && words.starts(["touch"])
    outcome: accept
  - name: nothing is deleted
    when: command.contains("rm ")
    outcome: decline
    reason: nothing is deleted here
limits:
  approvals_per_turn: 4
`

// asksFor returns a model that runs commands one after another.
func asksFor(t *testing.T, commands ...string) *scriptedmodel.Server {
	t.Helper()
	var b strings.Builder
	b.WriteString("rules:\n  - when: {turn: 1}\n    steps:\n")
	for _, c := range commands {
		b.WriteString("      - - shell: {cmd: '" + c + "', escalate: true, justification: may I}\n")
	}
	b.WriteString("      - - say: done\n")
	return scriptedmodel.Serve(t, b.String())
}

// judgedTalk returns a session on this machine whose pumps judge by policies.
func judgedTalk(t *testing.T, id string, model *scriptedmodel.Server, texts ...string) (*talk, func(...conversation.Send) pumps.RunPumpInput) {
	t.Helper()
	return judgedTalkOn(t, id, model, protocol.HostSpec{Name: protocol.LocalHost}, texts...)
}

func judgedTalkOn(t *testing.T, id string, model *scriptedmodel.Server, spec protocol.HostSpec, texts ...string) (*talk, func(...conversation.Send) pumps.RunPumpInput) {
	t.Helper()
	k := handMadeOn(t, id, model, spec)
	if err := site.KeepPolicies(t.Context(), k.set.site, texts); err != nil {
		t.Fatal(err)
	}
	k.start()
	return k, func(sends ...conversation.Send) pumps.RunPumpInput {
		in := k.input(sends...)
		in.Pump.Thread.ApprovalPolicy, in.Pump.Thread.Sandbox = "untrusted", "workspace-write"
		in.Labels, in.Requesters = map[string]string{"env": "test"}, []string{"ann"}
		for i, text := range texts {
			in.Policies = append(in.Policies, site.PolicyRef{Digest: site.PolicyDigest(text), Of: []string{"session", "seed"}[i]})
		}
		in.Pump.Policy = in.Policies[0].Digest
		return in
	}
}

func (k *talk) run(in pumps.RunPumpInput, n int32, want conversation.PumpReason) pumps.RunPumpResult {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), patience)
	defer cancel()
	out, err := pumps.RunPump(ctx, k.set.Pump.Site, in, quiet(n))
	if err != nil {
		k.t.Fatalf("pump: %v", err)
	}
	k.took(out, want)
	return out
}

func (k *talk) exists(name string) bool {
	_, err := os.Stat(filepath.Join(k.layout.WorkDir, name))
	return err == nil
}

func (k *talk) decisions() (all []protocol.Entry) {
	for _, e := range readAll(k.t, k.store, k.claim.Session, 1) {
		if e.Type == protocol.EntryDecision {
			all = append(all, e)
		}
	}
	return all
}

func TestAPolicyAcceptsDeclinesAndAsksOfARealCodex(t *testing.T) {
	k, input := judgedTalk(t, "judged", asksFor(t, "touch a", "rm a", "touch b", "chmod 600 a", "touch c"), judging)
	out := k.run(input(k.message("go")), 1, conversation.RequestsOpen)
	if len(out.Pump.Requests) != 1 || out.Pump.Requests[0].Ruling == nil || out.Pump.Requests[0].Ruling.Rule != policy.RuleDefault {
		t.Fatalf("asked: %+v", out.Pump.Requests)
	}
	if !k.exists("a") || !k.exists("b") {
		t.Error("what was accepted did not run, or what was declined did")
	}
	got := k.decisions()
	if len(got) != 3 || got[1].Data["outcome"] != "decline" || got[1].Data["rule"] != "nothing is deleted" || got[1].Data["reason"] != "nothing is deleted here" || got[1].Data["policy"] != site.PolicyDigest(judging) {
		t.Errorf("on record: %+v", got)
	}
	// Codex has asked four times by now. Beyond the limit, people are asked.
	r := out.Pump.Requests[0]
	out = k.run(input(conversation.Send{ID: "d1", Kind: conversation.SendDecision, RPC: r.RPC, Incarnation: r.Incarnation, RequestKind: r.Kind, Method: r.Method, Outcome: protocol.Decline}), 1, conversation.RequestsOpen)
	if len(out.Pump.Requests) != 1 || out.Pump.Requests[0].Ruling.Rule != policy.RulePerTurn {
		t.Errorf("beyond the limit: %+v", out.Pump.Requests)
	}
	if k.exists("c") {
		t.Error("it ran beyond the limit")
	}
}

// A worker may die before or after it answered, and the next one cannot know which.
func TestAVerdictTakesEffectOnceThoughWorkersDie(t *testing.T) {
	k, input := judgedTalk(t, "twice", asksFor(t, "touch a", "mkdir once", "touch b"), strings.Replace(judging, `["touch"])`, `["touch"]) || words == ["mkdir", "once"]`, 1))
	in := input(k.message("go"))
	k.run(in, 1, conversation.TurnEnded)
	if n := len(k.decisions()); n != 3 {
		t.Fatalf("%d decisions", n)
	}
	// Only the journal has the decisions of the first attempt.
	k.run(in, 2, conversation.TurnEnded)
	if n := len(k.decisions()); n != 3 {
		t.Errorf("%d decisions, once it was repeated", n)
	}
	journal, err := os.ReadFile(filepath.Join(folder.ServerDir(k.layout, 1), "out.log"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(journal), `"serverRequest/resolved"`); n != 3 {
		t.Errorf("codex resolved %d requests", n)
	}
}

func TestAPolicyThatCannotBeHadDeclinesEverything(t *testing.T) {
	for name, spoil := range map[string]func(*talk, string) error{
		"gone":         func(k *talk, key string) error { return k.store.Delete(t.Context(), key) },
		"another text": func(k *talk, key string) error { return k.store.Put(t.Context(), key, []byte("default: ask\n")) },
	} {
		k, input := judgedTalk(t, "broken", asksFor(t, "touch a"), judging)
		if err := spoil(k, site.PoliciesPrefix+site.PolicyDigest(judging)); err != nil {
			t.Fatal(err)
		}
		out := k.run(input(k.message("go")), 1, conversation.TurnEnded)
		if k.exists("a") || !strings.Contains(out.PolicyBroken["session"], "policy of the session cannot be used") {
			t.Errorf("%s: it ran, or the session hears %q", name, out.PolicyBroken)
		}
		if got := k.decisions(); len(got) != 1 || got[0].Data["rule"] != policy.RuleBroken || got[0].Data["outcome"] != "decline" {
			t.Errorf("%s: on record %+v", name, got)
		}
	}
}

func TestOfTwoPoliciesTheStricterWordCounts(t *testing.T) {
	asks := conversation.Asked{Kind: protocol.KindCommand, Command: "touch a", CWD: "/w"}
	texts := map[string]string{
		"accept": "rules: [{name: a, when: 'words.starts([\"touch\"])', outcome: accept}]\n", "session": "rules: [{name: s, when: 'words.starts([\"touch\"])', outcome: accept_for_session}]\n",
		"ask": "default: ask\n", "decline": "default: decline\n",
	}
	b := &site.Site{Deps: site.Deps{Store: newStore(t)}}
	for _, c := range []struct{ one, other, want string }{
		{"accept", "session", "accept"}, {"session", "session", "session"}, {"accept", "ask", "ask"}, {"decline", "accept", "decline"}, {"ask", "decline", "decline"},
	} {
		for _, pair := range [][2]string{{c.one, c.other}, {c.other, c.one}} {
			in := pumps.RunPumpInput{Layout: protocol.Layout{WorkDir: "/w"}}
			for _, name := range pair {
				if err := site.KeepPolicies(t.Context(), b, []string{texts[name]}); err != nil {
					t.Fatal(err)
				}
				in.Policies = append(in.Policies, site.PolicyRef{Digest: site.PolicyDigest(texts[name])})
			}
			in.Claim.Host.Name = "box"
			judge, broken, err := pumps.Judge(t.Context(), b, in, 1)
			if err != nil || broken != nil {
				t.Fatal(err, broken)
			}
			v := judge(asks)
			want := map[string]conversation.Verdict{"accept": {Outcome: "accept"}, "session": {Outcome: "accept", ForSession: true}, "decline": {Outcome: "decline"}}[c.want]
			if v.Outcome != want.Outcome || v.ForSession != want.ForSession {
				t.Errorf("%s and %s: %+v", pair[0], pair[1], v)
			}
		}
	}
}

func BenchmarkJudge(b *testing.B) {
	p, err := policy.Parse([]byte(judging))
	if err != nil {
		b.Fatal(err)
	}
	in := pumps.RunPumpInput{Layout: protocol.Layout{WorkDir: "/w"}}
	a := conversation.Asked{Kind: protocol.KindCommand, Command: "/bin/bash -lc 'touch a'", CWD: "/w"}
	for b.Loop() {
		if pumps.PumpVerdict(p.Decide(pumps.RequestOf(in, a))).Outcome == protocol.Decline {
			b.Fatal("declined")
		}
	}
}

// An unknown outcome declines, even if another policy accepts.
func TestAWordThatNobodyKnowsIsTheStrictest(t *testing.T) {
	known := []policy.Outcome{policy.AcceptForSession, policy.Accept, policy.Ask, policy.Decline}
	for i, o := range known {
		for _, v := range [][2]policy.Verdict{{{Outcome: o}, {Outcome: "perhaps"}}, {{Outcome: "perhaps"}, {Outcome: o}}} {
			if got := pumps.PumpVerdict(pumps.Stricter(v[0], v[1])); got.Outcome != protocol.Decline {
				t.Errorf("%s beside an unknown word: %+v", o, got)
			}
		}
		for _, p := range known[i:] {
			if got := pumps.Stricter(policy.Verdict{Outcome: p}, policy.Verdict{Outcome: o}); got.Outcome != p {
				t.Errorf("%s beside %s is %s", p, o, got.Outcome)
			}
		}
	}
}

// A person who steers a turn does not get an accept that the rules give only to the
// sender of the turn.
func TestRulesAcceptForAllWhoAskOrForNone(t *testing.T) {
	const text = "rules:\n  - {name: ann may, when: 'requester == \"ann\"', outcome: accept}\n  - {name: mallory may not, when: 'requester == \"mallory\"', outcome: decline, reason: no}\ndefault: ask\n"
	b := &site.Site{Deps: site.Deps{Store: newStore(t)}}
	if err := site.KeepPolicies(t.Context(), b, []string{text}); err != nil {
		t.Fatal(err)
	}
	in := pumps.RunPumpInput{Layout: protocol.Layout{WorkDir: "/w"}, Policies: []site.PolicyRef{{Digest: site.PolicyDigest(text), Of: "session"}, {Digest: site.PolicyDigest("gone"), Of: "seed"}}}
	if _, broken, err := pumps.Judge(t.Context(), b, in, 1); err != nil || len(broken) != 1 || !strings.Contains(broken["seed"], "not in the store") {
		t.Errorf("broken are %q (%v)", broken, err)
	}
	in.Policies = in.Policies[:1]
	for _, c := range []struct {
		by   []string
		want protocol.Outcome
	}{
		{[]string{"ann"}, protocol.Accept}, {[]string{"ann", "bob"}, ""}, {[]string{"bob", "ann"}, ""}, {nil, ""},
		{[]string{"ann", ""}, ""}, {[]string{"ann", "mallory"}, protocol.Decline}, {[]string{"mallory", "bob"}, protocol.Decline},
	} {
		in.Requesters = c.by
		judge, _, err := pumps.Judge(t.Context(), b, in, 1)
		if err != nil {
			t.Fatal(err)
		}
		if v := judge(conversation.Asked{Kind: protocol.KindCommand, Command: "/bin/bash -lc 'touch a'", CWD: "/w"}); v.Outcome != c.want {
			t.Errorf("for %q: %+v", c.by, v)
		}
	}
}
