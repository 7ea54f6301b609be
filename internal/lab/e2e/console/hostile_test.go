package console

import (
	"testing"

	"fairlead.dev/fairlead/internal/lab/browser"
	"fairlead.dev/fairlead/internal/lab/e2e"
)

// TestAHostileTranscriptDoesNothing: what a command prints and the model says is text on the page of
// the session, whatever it looks like and however long a line is.
func TestAHostileTranscriptDoesNothing(t *testing.T) {
	id := "hostile"
	b := open(t, 1440, 900)
	e2e.Session(t, id)
	e2e.Turn(t, id, "print hostile words")
	b.GoTo("/sessions/" + id)
	b.Press(`.entry.command details:not([open]) summary`) // what is long is closed at first
	b.Sees("<script>window.pwned=1</script>", `\u202eevil`, "<b id=injected", "(javascript:window.pwned=1)", id)
	if browser.Eval[bool](b, `window.pwned !== undefined || document.querySelector(".transcript img, .transcript script, #injected") !== null || document.title === "title"`) {
		t.Errorf("the page did what the transcript says:\n%s", b.Text())
	}
	if !browser.Eval[bool](b, `[...document.querySelectorAll(".output .sgr-red")].some(e => e.textContent === "red")`) {
		t.Error("the colour of the output is lost")
	}
	if n := browser.Eval[int64](b, `document.querySelector(".transcript").textContent.length`); n > 1<<20 {
		t.Errorf("the page has %d characters of the transcript", n)
	}
	b.HasNoBarriers("a hostile transcript")
}
