package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"

	"fairlead.dev/fairlead/internal/lab/scenario"
	"fairlead.dev/fairlead/internal/protocol"
)

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func nothingMore(*run, *scenario.Result, []byte, []protocol.Entry, protocol.SessionDetail) {}

func count(entries []protocol.Entry, is func(protocol.Entry) bool) (n int) {
	for _, e := range entries {
		if is(e) {
			n++
		}
	}
	return n
}

// judgedOnce checks that the policy's verdict is recorded once, with its rule,
// and that no person was asked.
func judgedOnce(_ *run, res *scenario.Result, _ []byte, entries []protocol.Entry, d protocol.SessionDetail) {
	n := count(entries, func(e protocol.Entry) bool {
		return e.Type == protocol.EntryDecision && e.Data["by"] == "policy" && e.Data["rule"] == "let it" && e.Data["outcome"] == "accept"
	})
	switch {
	case n == 0 || d.View.Judged == 0:
		res.Find(answerLost, "the policy's verdict is not on record")
	case n > 1 || d.View.Judged > 1:
		res.Find(answerRepeated, "the policy's verdict is on record more than once")
	}
}

// interruptedOnce checks that it is recorded once that the bound is reached,
// and why the turn ended.
func interruptedOnce(_ *run, res *scenario.Result, _ []byte, entries []protocol.Entry, d protocol.SessionDetail) {
	over := count(entries, func(e protocol.Entry) bool {
		return e.Status == "budget" && e.Data["budget"] == "commands" && e.Data["used"] == "2"
	})
	if over != 1 {
		res.Find(wrong, "that the budget is reached is on record other than once")
	}
	if t := d.Turns[0]; t.Status != "interrupted" || t.Error == nil || t.Error.Kind != protocol.EndBudget || t.EndedBy != protocol.EndedByBudget {
		res.Find(wrong, "the turn does not say that its budget was reached")
	}
}

func deliveredOnce(r *run, res *scenario.Result, journal []byte, _ []protocol.Entry, _ protocol.SessionDetail) {
	if n := bytes.Count(journal, []byte(`"method":"item/tool/call"`)); n != 1 {
		res.Find(wrong, "codex called other than once")
	}
	list, err := r.deliverables()
	switch {
	case err != nil:
		res.Find(wrong, "deliverables: %v", err)
	case len(list) == 0:
		res.Find(answerLost, "nothing was delivered")
	case len(list) > 1:
		res.Find(answerRepeated, "it was delivered more than once")
	case list[0].Digest != sumOf("all is well\n") || list[0].Bytes != 12:
		res.Find(wrong, "something else was delivered")
	}
}

func begunOnce(item string) func(*run, *scenario.Result, []byte, []protocol.Entry, protocol.SessionDetail) {
	return func(_ *run, res *scenario.Result, journal []byte, _ []protocol.Entry, _ protocol.SessionDetail) {
		if n := bytes.Count(journal, []byte(`"method":"item/started","params":{"item":{"type":"`+item+`"`)); n != 1 {
			res.Find(wrong, "codex began it other than once")
		}
	}
}
