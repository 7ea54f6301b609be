package conversation

import (
	"encoding/json"
	"strings"
	"testing"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

const secret = "sk-live-0123456789"

func TestSecretsReachNeitherSinkNorResult(t *testing.T) {
	st := running()
	opt := Options{Redactor: NewRedactor(secret, "short", secret), Exit: func() (string, string) { return "exit status 1", "key " + secret }}
	notes := []Note{{ID: "n", Type: protocol.EntryDecision, Text: secret, Data: map[string]string{"reason": "is " + secret}}}
	s := perform(t, PumpInput{State: st, Notes: notes, Sends: []Send{{ID: "s", Kind: SendSteer, Text: "x"}}, Limits: Limits{Excerpt: 40}}, opt)
	change := `,"changes":[{"path":"/w/` + secret + `","kind":{"type":"add"},"diff":"` + secret + `"}]`
	s.hear(
		completed("u", "userMessage", `,"content":[{"type":"text","text":"my `+secret+`"}]`),
		started("a", "agentMessage", ""),
		wireEvent("item/agentMessage/delta", `"itemId":"a","delta":"it is sk-li"`),
		wireEvent("item/agentMessage/delta", `"itemId":"a","delta":"ve-0123"`),
		wireEvent("item/agentMessage/delta", `"itemId":"a","delta":"456789 and more"`),
		completed("a", "agentMessage", `,"text":"it is `+secret+` and more"`),
		started("c", "commandExecution", ""), asking(0, "c", strings.Repeat("x", 30)+secret),
		completed("c", "commandExecution", `,"command":"echo `+secret+`","aggregatedOutput":"`+secret+`"`),
		completed("m", "mcpToolCall", `,"server":"s","tool":"t","arguments":{"key":"`+secret+`"},"result":{"content":[{"text":"`+secret+`"}]}`),
		started("f", "fileChange", change), `{"method":"item/fileChange/requestApproval","id":1,"params":{"threadId":"thread-1","turnId":"turn-1","itemId":"f"}}`,
		"stray "+strings.Repeat("y", 180)+secret,
		`{"id":"send/s/0","error":{"code":-32600,"message":"no `+secret+`"}}`,
		wireEvent("error", `"error":{"message":"bad `+secret+`"},"willRetry":false`),
		turnDone("failed", `,"error":{"message":"failed with `+secret+`","codexErrorInfo":"other"}`),
	)
	s.m.ended(0)
	r := s.result(TurnEnded)
	all, err := json.Marshal([]any{r, s.sink.entries, s.sink.requests, s.sink.deltas})
	if err != nil {
		t.Fatal(err)
	}
	for _, piece := range []string{secret, secret[:10], "0123456"} {
		if i := strings.Index(string(all), piece); i >= 0 {
			t.Errorf("%q got out: …%s…", piece, all[max(0, i-200):min(len(all), i+100)])
		}
	}
	streamed := ""
	for _, d := range s.sink.deltas {
		if int(d.At) != len(streamed) {
			t.Errorf("delta %+v at %d", d, len(streamed))
		}
		streamed += d.Text
	}
	if want := "it is " + mask(len(secret)) + " and more"; streamed != want || r.Turn.FinalText != want {
		t.Errorf("streamed %q, final %q, want %q", streamed, r.Turn.FinalText, want)
	}
	// A request has the same digest, whatever is known to be secret.
	plain := perform(t, PumpInput{State: st}, Options{})
	plain.hear(asking(0, "c", strings.Repeat("x", 30)+secret))
	if a, b := s.sink.requests[0].Digest, plain.sink.requests[0].Digest; a != b {
		t.Errorf("digests %s and %s", a, b)
	}

	s = perform(t, PumpInput{State: st}, opt)
	s.m.ended(0)
	if p := s.result(ProcessEnded).Problem; strings.Contains(p.Message, secret) {
		t.Errorf("problem %+v", p)
	}
}

func TestRedactionKeepsLengthsAndShortWords(t *testing.T) {
	r := NewRedactor("longsecret", "longsecret-and-longer", "ab")
	for in, want := range map[string]string{
		"a longsecret.":            "a [redacted].",
		"longsecret-and-longer ab": "[redacted][redacted][ ab",
		"nothing":                  "nothing",
		"":                         "",
	} {
		if got := r.String(in); got != want || len(got) != len(in) {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
	var none *Redactor
	if got := none.String("longsecret"); got != "longsecret" {
		t.Errorf("no redactor made %q", got)
	}
}

func TestTheLongestBeginningOfAnySecretIsHeldBack(t *testing.T) {
	r := NewRedactor("abababac", "bababbbb", "zzzzzzzzz")
	for _, text := range []string{"", "a", "x", "xab", "ababab", "xabababa", "abababab", "bababb", "zzzzzzzz", "azz", "abz", "zzbab", "xbababbb", "aaaa", "bbbb"} {
		n := 0
		for _, s := range r.known.Load().secrets {
			for k := range len(s) {
				if strings.HasSuffix(text, s[:k]) {
					n = max(n, k)
				}
			}
		}
		if whole, begun := r.split(text); whole+begun != text || len(begun) != n {
			t.Errorf("%q is split into %q and %q, want %d bytes held back", text, whole, begun, n)
		}
	}
}

func TestDigestIsOverWhatWasAsked(t *testing.T) {
	base := asked{Kind: protocol.KindCommand, Command: "rm <x> & y", CWD: "/w"}
	// printf %s '{"command":"rm <x> & y","cwd":"/w","kind":"command"}' | sha256sum
	if got, want := base.digest(), "2692f56f337b836321aa0e06255ccafe731aad596411ff8f67d54ff7d8cd23d2"; got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
	same := base
	same.Network = json.RawMessage(`null`)
	if same.digest() != base.digest() {
		t.Error("nothing asked for changes the digest")
	}
	one, two := base, base
	one.Network, two.Network = json.RawMessage(`{"host":"h","protocol":"https"}`), json.RawMessage(`{ "protocol":"https", "host":"h" }`)
	if one.digest() != two.digest() {
		t.Error("the order of members changes the digest")
	}
	seen := map[string]bool{}
	for _, a := range []asked{
		base, one, {Kind: protocol.KindCommand, Command: "rm <x> & y", CWD: "/v"}, {Kind: protocol.KindCommand, Command: "rm <x> & y", CWD: "/w", Action: "writeStdin"},
		{Kind: protocol.KindCommand, Command: "rm <x> & y", CWD: "/w", Permissions: json.RawMessage(`{"network":{"enabled":true}}`)},
		{Kind: protocol.KindFileChange}, {Kind: protocol.KindFileChange, GrantRoot: "/"}, {Kind: protocol.KindFileChange, Changes: []wire.Change{{Path: "a", Diff: "x"}}},
		{Kind: protocol.KindFileChange, Changes: []wire.Change{{Path: "a", Diff: "y"}}}, {Kind: protocol.KindFileChange, Changes: []wire.Change{{Path: "b", Diff: "x"}}},
	} {
		if d := a.digest(); seen[d] {
			t.Errorf("%+v has another's digest", a)
		} else {
			seen[d] = true
		}
	}
}

func TestARedactorLearnsWhileItIsUsed(t *testing.T) {
	r := NewRedactor("the-old-token")
	if got := r.String("the-new-token"); got != "the-new-token" {
		t.Errorf("before it knew: %q", got)
	}
	r.Add("the-new-token", "short", "the-old-token")
	if got := r.String("the-old-token the-new-token short"); strings.Contains(got, "token") || !strings.HasSuffix(got, " short") {
		t.Errorf("afterwards: %q", got)
	}
	if _, begun := r.split("see the-new-t"); begun != "the-new-t" {
		t.Errorf("held back: %q", begun)
	}
}

func TestWhatBecameOfASendIsToldWithoutSecrets(t *testing.T) {
	var told []protocol.Delivery
	opt := Options{Redactor: NewRedactor("hunter2-hunter2"), Settled: func(d protocol.Delivery) { told = append(told, d) }}
	s := perform(t, PumpInput{State: opened(), Sends: []Send{turn(5, "m-1", "go")}}, opt)
	s.hear(`{"id":"send/m-1/0","error":{"code":-32600,"message":"the key hunter2-hunter2 is no good, ` + strings.Repeat("x", 100_000) + `"}}`)
	if len(told) != 1 || told[0].State != protocol.Rejected || !strings.Contains(told[0].Error, "is no good") || strings.Contains(told[0].Error, "hunter2") || len(told[0].Error) > maxProblem {
		t.Errorf("told %.300v", told)
	}
}
