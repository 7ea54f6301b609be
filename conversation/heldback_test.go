package conversation

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// relay runs a journal that begins at the offset of running() through pumps. Each pump is
// cancelled when it has read up to the next cut. relay returns all text that was shown.
func relay(t *testing.T, journal string, opt Options, cuts ...int) []protocol.Delta {
	t.Helper()
	state, base, k := running(), running().Cursor.Offset, newKeeper()
	for _, cut := range append(cuts, len(journal)) {
		text, err := json.Marshal(PumpInput{State: state, Prefix: "g1.p9"})
		if err != nil {
			t.Fatal(err)
		}
		var in PumpInput
		if err := json.Unmarshal(text, &in); err != nil {
			t.Fatal(err)
		}
		m, err := newMachine(in, k, opt, base+int64(cut))
		if err != nil {
			t.Fatal(err)
		}
		m.atStart()
		split := wire.NewSplitter(in.State.Rewind, 0)
		split.Feed([]byte(journal[in.State.Rewind-base:cut]), func(l wire.Line) { m.read(l, 0) })
		m.caughtUp(0)
		m.cancel(0)
		if m.err != nil || m.result == nil {
			t.Fatalf("cut at %d: no result, %v", cut, m.err)
		}
		state = m.result.State
	}
	return k.deltas
}

// seenBy returns the text of an item that a viewer has. If a byte came several times, the
// viewer keeps the first, as all viewers do. A gap between bytes is an error.
func seenBy(deltas []protocol.Delta, item string) (string, error) {
	seen := ""
	for _, d := range deltas {
		if d.Item != item {
			continue
		}
		if int(d.At) > len(seen) {
			return seen, fmt.Errorf("%+v behind %q: a gap", d, seen)
		}
		if end := int(d.At) + len(d.Text); end > len(seen) {
			seen += d.Text[len(seen)-int(d.At):]
		}
	}
	return seen, nil
}

// hides checks the text that viewers saw. Each secret is replaced by its placeholder, so
// that no piece of it with minSecret bytes is visible. All other text is complete. If a
// pump ended within text that began like a secret but was none, this beginning may be
// hidden.
func hides(text, seen string, cut bool, secrets ...string) error {
	if len(seen) != len(text) {
		return fmt.Errorf("%d bytes seen, %d said", len(seen), len(text))
	}
	for i := range len(secret) - minSecret + 1 {
		if piece := secret[i : i+minSecret]; strings.Contains(seen, piece) {
			return fmt.Errorf("%q was seen", piece)
		}
	}
	plain := strings.ReplaceAll(text, secret, strings.Repeat("\x00", len(secret)))
	for i := range len(plain) {
		hidden := strings.IndexByte(placeholder, seen[i]) >= 0
		switch {
		case plain[i] == 0 && !hidden:
			return fmt.Errorf("byte %d of a secret was seen", i)
		case plain[i] == 0 || plain[i] == seen[i]:
		case !cut || !hidden || !begins(plain[:i+1], secrets):
			return fmt.Errorf("byte %d is not %q", i, plain[i])
		}
	}
	return nil
}

// begins reports whether a text ends with the beginning of a secret.
func begins(text string, secrets []string) bool {
	for _, s := range secrets {
		for n := range min(len(s), len(text)) {
			if strings.HasSuffix(text, s[:n+1]) {
				return true
			}
		}
	}
	return false
}

// spelled returns the lines of an agent's message and of a command's output, alternately.
// Both have the text, in pieces of n bytes.
func spelled(text string, n int) []string {
	lines := []string{started("a", "agentMessage", ""), started("c", "commandExecution", "")}
	for ; text != ""; text = text[min(n, len(text)):] {
		piece := text[:min(n, len(text))]
		lines = append(lines, says("a", piece), wireEvent("item/commandExecution/outputDelta", fmt.Sprintf(`"itemId":"c","delta":%q`, piece)))
	}
	return lines
}

var spellings = []string{
	"the key " + secret + " is it.",
	secret + secret + "\n",
	"risk-live, sk-sk-live" + secret + "9 and no more.",
	"key=sk-live is none, " + secret + " is.",
}

// Wherever one pump ends and another continues, no viewer sees a secret or eight bytes of
// one, neither in an agent's message nor in a command's output.
func TestHandOverAtEveryByteShowsNoSecret(t *testing.T) {
	secrets := []string{secret, "another " + secret + " that is longer"}
	opt := Options{Redactor: NewRedactor(secrets...)}
	for _, s := range spellings {
		for _, n := range []int{5, 100} {
			journal := strings.Join(spelled(s, n), "\n") + "\n"
			step := 1
			if testing.Short() {
				step = 7
			}
			for cut := 0; cut <= len(journal); cut += step {
				deltas := relay(t, journal, opt, cut)
				for _, item := range []string{"a", "c"} {
					seen, err := seenBy(deltas, item)
					if err == nil {
						err = hides(s, seen, true, secrets...)
					}
					if err != nil {
						t.Fatalf("%q in pieces of %d, cut at byte %d: item %s: %v; seen was %q", s, n, cut, item, err, seen)
					}
				}
			}
		}
	}
}

// This is the same with two hand-overs: one after each line, and one at most 11 lines
// later.
func TestTwoHandOversShowNoSecret(t *testing.T) {
	opt := Options{Redactor: NewRedactor(secret)}
	for _, s := range spellings {
		lines := spelled(s, 1)
		journal := strings.Join(lines, "\n") + "\n"
		var ends []int
		for i := range lines {
			ends = append(ends, len(strings.Join(lines[:i+1], "\n"))+1)
		}
		step := 1
		if testing.Short() {
			step = 7
		}
		for i := 0; i < len(ends); i += step {
			one := ends[i]
			for _, two := range ends[i:min(i+12, len(ends))] {
				deltas := relay(t, journal, opt, one, two)
				for _, item := range []string{"a", "c"} {
					seen, err := seenBy(deltas, item)
					if err == nil {
						err = hides(s, seen, true, secret)
					}
					if err != nil {
						t.Fatalf("%q, cut at bytes %d and %d: item %s: %v; seen was %q", s, one, two, item, err, seen)
					}
				}
			}
		}
	}
}

func TestWhatOnlyBeganLikeASecretIsShown(t *testing.T) {
	opt := Options{Redactor: NewRedactor(secret)}
	for _, s := range spellings {
		journal := strings.Join(spelled(s, 3), "\n") + "\n"
		seen, err := seenBy(relay(t, journal, opt), "c")
		if err == nil {
			err = hides(s, seen, false)
		}
		if err != nil {
			t.Errorf("%q: %v; seen was %q", s, err, seen)
		}
	}
}
