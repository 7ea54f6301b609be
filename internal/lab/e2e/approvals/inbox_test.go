package approvals

import (
	"strconv"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// TestTheInboxDecidesOneOfTwo at 80×24: the second card is chosen and accepted by one key,
// its delivery shows, and the first one still waits. Another person declines that one: the
// card says so and takes no key.
func TestTheInboxDecidesOneOfTwo(t *testing.T) {
	id := "inboxed"
	e2e.Session(t, id)
	e2e.Send(t, id, "run two commands")
	both := e2e.Open(t, id, 2)
	w := e2e.Tmux(t, 80, 24, "approval", "watch", "--session", id)
	var asked, claims [2]string // either may come first
	for i := range both {
		word := "one"
		if strings.Contains(both[i].Command, "two") {
			word = "two"
		}
		asked[i], claims[i] = "$ printf "+word, strconv.Quote(both[i].Reason)
	}
	w.Sees("2 approvals wait for a decision", "> "+both[0].ID, both[1].ID, asked[0], "workspace-write", "a accept")
	w.Presses("j")
	w.Sees("> "+both[1].ID, "── "+both[1].ID, "claims   "+claims[1]+" (the model's words, not checked)", asked[1])
	w.Presses("d")
	w.Sees(both[1].Digest, "what is shown gives it")
	w.Presses("a")
	w.Sees("1 approval waits", "accepted by", "recorded → sent → acknowledged")
	if got := approval(t, both[1].ID); got.Decision == nil || got.Decision.Outcome != "accept" || got.Digest != both[1].Digest {
		t.Errorf("it is decided %+v", got.Decision)
	}
	untouched(t, both[0].ID)
	w.Resize(140, 30)
	w.Sees("> "+both[1].ID, "│", "thread started") // the transcript beside it
	w.Resize(80, 24)
	w.Misses("thread started")
	w.Presses("k")
	w.Sees("> "+both[0].ID, asked[0])
	w.Presses("x")
	w.Sees("decline " + both[0].ID + ", because")
	w.Types("not now")
	e2e.OK(t, "approval", "decline", both[0].ID, "--reason", "seen elsewhere")
	w.Sees("no approvals wait", ": seen elsewhere")
	w.Presses("Enter")
	w.Sees("it cannot be decided any more: declined by")
	w.Presses("a")
	if got := approval(t, both[0].ID).Decision; got.Outcome != "decline" || got.Reason != "seen elsewhere" {
		t.Errorf("it is decided %+v", got)
	}
	w.Presses("?")
	w.Sees("decline it and say why")
	w.Presses("q")
	w.Misses("decline it and say why")
	w.Presses("q")
	if code := w.Ends(); code != 0 {
		t.Errorf("ctl exits with %d:\n%s", code, w.All())
	}
}

// TestTheInboxShowsTheDiffAndAsksQuestions: a file change is accepted after its diff, and
// questions get their answers line by line, after which the inbox is back.
func TestTheInboxShowsTheDiffAndAsksQuestions(t *testing.T) {
	id := "inboxdiff"
	asking(t, id)
	w := e2e.Tmux(t, 80, 24, "approval", "watch", "--session", id)
	w.Sees("no approvals wait for a decision")
	path := e2e.Lab.Dir + "/inboxdiff.txt"
	e2e.Send(t, id, "you need a file at "+path)
	w.Sees("codex asks to change a file", "+made by codex", "outside the work folder")
	w.Presses("a")
	w.Sees("recorded → sent → acknowledged")
	e2e.Ended(t, id, 1)
	e2e.Send(t, id, "you need to know")
	w.Sees("1 approval waits")
	w.Presses("k")
	w.Sees("codex asks a question")
	w.Presses("a")
	w.Sees("2) blue")
	w.Types("2")
	w.Presses("Enter")
	w.Sees("What is the word?")
	w.Types("some")
	w.Presses("Enter")
	w.Sees("no approvals wait", "answered by")
	if v := e2e.Ended(t, id, 2); v.Turn.Status != "completed" {
		t.Errorf("the session is %+v", v)
	}
	if said := e2e.LastText(t, id); !strings.Contains(said, "blue") || !strings.Contains(said, "some") {
		t.Errorf("the model said %q", said)
	}
	w.Presses("C-c")
	if code := w.Ends(); code != 130 {
		t.Errorf("ctl exits with %d:\n%s", code, w.All())
	}
}

// TestWithoutAFullScreenWatchIsAsBefore: with --plain it asks for each approval as it comes.
func TestWithoutAFullScreenWatchIsAsBefore(t *testing.T) {
	id := "plainly"
	e2e.Session(t, id)
	e2e.Send(t, id, "you need a command")
	ap := e2e.Open(t, id, 1)[0]
	w := e2e.Tmux(t, 100, 30, "approval", "watch", "--plain", "--session", id)
	w.Sees("watching; ^C ends it", "? codex asks to run a command · "+ap.ID, "y accept")
	w.Presses("n")
	e2e.Until(t, "the decision", func() (bool, error) {
		got := approval(t, ap.ID)
		return got.State != protocol.ApprovalOpen, nil
	})
	if got := approval(t, ap.ID).Decision; got == nil || got.Outcome != "decline" {
		t.Errorf("it is decided %+v", got)
	}
}

// TestTheInboxSignsADecision the one way that `approval accept` does: the passphrase of the
// key is asked for at the terminal, and then the inbox is back.
func TestTheInboxSignsADecision(t *testing.T) {
	id := "inboxsigned"
	ann := newKey(t, "ann", "open sesame")
	e2e.Session(t, id, "--policy", policyFile(t, "default: ask\n", "ann@example.com "+ann.line))
	e2e.Send(t, id, "you need a command")
	ap := e2e.Open(t, id, 1)[0]
	w := e2e.Tmux(t, 100, 24, "approval", "watch", "--session", id, "--sign-with", ann.file)
	w.Sees("> "+ap.ID, "sign", "ann@example.com")
	w.Presses("a")
	w.Sees("passphrase of " + ann.file)
	w.Types("open sesame")
	w.Presses("Enter")
	w.Sees("accepted by ann@example.com", "recorded")
	decidedBy(t, ap, "accept", "ann@example.com")
	if screen := w.All(); strings.Contains(screen, "open sesame") {
		t.Errorf("the passphrase is on the screen:\n%s", screen)
	}
	w.Presses("q")
	if code := w.Ends(); code != 0 {
		t.Errorf("ctl exits with %d:\n%s", code, w.All())
	}
}
