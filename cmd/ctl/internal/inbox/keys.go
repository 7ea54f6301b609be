package inbox

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
)

// shortDigest is how much of a digest a person types, as for `ctl approval accept`.
const shortDigest = 8

// key handles a key.
func (m *Model) key(k tea.KeyPressMsg) tea.Cmd {
	name := k.String()
	if name == "ctrl+c" {
		return tea.Interrupt
	}
	if m.prompt != nil {
		return m.typed(k)
	}
	m.told, m.bad = "", false
	switch name {
	case "q":
		if m.whole || m.shows != card {
			m.whole, m.shows = false, card
			return nil
		}
		return tea.Quit
	case "esc":
		m.whole, m.shows = false, card
	case "?":
		m.shows = toggled(m.shows, help)
	case "tab", "t":
		m.shows = toggled(m.shows, transcript)
	case "enter":
		if m.current() != nil {
			m.shows, m.whole = card, !m.whole
			m.scroll.Top = 0
		}
	case "d":
		m.details, m.shows = !m.details, card
		m.scroll.Top = 0
	case "j", "down":
		m.choose(m.index(m.at) + 1)
	case "k", "up":
		m.choose(m.index(m.at) - 1)
	case "a", "y":
		return m.decide(Decision{Outcome: "accept"})
	case "s":
		return m.inLines("grant", "there is nothing to give in part")
	case "e":
		return m.inLines("revise", "there is no file to revise")
	case "A":
		return m.decide(Decision{Outcome: "accept", Scope: "session"})
	case "n":
		return m.decide(Decision{Outcome: "decline"})
	case "x":
		return m.decide(Decision{Outcome: "decline", Reason: "?"})
	case "c":
		return m.decide(Decision{Outcome: "cancel"})
	default:
		lines, rows := m.body()
		m.scroll.Move(name, len(lines), rows)
	}
	return nil
}

// inLines asks for a decision of the word's kind in lines, or says that none is possible.
func (m *Model) inLines(word, none string) tea.Cmd {
	it := m.current()
	switch {
	case it == nil || !slices.Contains(it.Approval.Offered, word):
		m.tell(none)
	case m.decidable(*it):
		return m.aside(*it, nil)
	}
	return nil
}

func toggled(now, to part) part {
	if now == to {
		return card
	}
	return to
}

// decidable reports whether an item can be decided now, and says why not.
func (m *Model) decidable(it Item) bool {
	switch {
	case m.trouble != "":
		m.tell("nothing can be decided while the connection is lost")
	case m.sending[it.Approval.ID]:
		m.tell("its decision is being sent")
	case !it.open(m.now()):
		m.tell("it cannot be decided any more: " + it.became(m.now()))
	case it.False:
		m.tell("nothing can be decided: what is shown is not what would be approved")
	default:
		return true
	}
	return false
}

// decide sends a decision about the item under the cursor, or says why it cannot. A reason of
// "?" is asked for.
func (m *Model) decide(d Decision) tea.Cmd {
	it := m.current()
	if it == nil {
		return nil
	}
	ap := it.Approval
	approves := d.Outcome == "accept"
	word := d.Outcome
	if d.Scope == "session" {
		word += "_for_session"
	}
	switch {
	case !m.decidable(*it):
	case d.Outcome == "accept" && d.Scope == "" && slices.Contains(ap.Offered, "answer"):
		return m.aside(*it, nil) // the answers are asked for, line by line
	case !slices.Contains(ap.Offered, word) && d.Outcome != "decline":
		m.tell(fmt.Sprintf("%s is not offered; offered: %s", strings.ReplaceAll(word, "_", " "), strings.Join(ap.Offered, ", ")))
	case approves && !m.read[ap.ID]:
		m.tell("not all of it was on the screen: Enter opens it, space pages to its end")
	case approves && it.Unsure != "":
		m.prompt = &prompt{words: fmt.Sprintf("its digest cannot be checked. To approve it as it is shown, type the first %d characters of its digest (d shows it):", shortDigest), decision: d, digest: true}
	case d.Reason == "?":
		d.Reason = ""
		m.prompt = &prompt{words: "decline " + ap.ID + ", because (Enter leaves it out, Esc goes back):", decision: d}
	default:
		return m.send(*it, d)
	}
	return nil
}

// typed handles a key at a prompt.
func (m *Model) typed(k tea.KeyPressMsg) tea.Cmd {
	p := m.prompt
	switch k.String() {
	case "esc":
		m.prompt = nil
	case "backspace":
		p.text = p.text[:max(len(p.text)-1, 0)]
	case "enter":
		m.prompt = nil
		it := m.current()
		text := strings.TrimSpace(string(p.text))
		switch {
		case it == nil:
		case !m.decidable(*it): // meanwhile
		case p.digest && (len(text) < shortDigest || !strings.HasPrefix(it.Approval.Digest, strings.ToLower(text))):
			m.tell("that is not its digest; nothing is decided")
		case p.digest:
			return m.send(*it, p.decision)
		default:
			p.decision.Reason = text
			return m.send(*it, p.decision)
		}
	default:
		if k.Text != "" {
			p.text = append(p.text, []rune(k.Text)...)
		}
	}
	return nil
}

// send sends a decision.
func (m *Model) send(it Item, d Decision) tea.Cmd {
	m.sending[it.Approval.ID] = true
	if it.Aside {
		return m.aside(it, &d)
	}
	return func() tea.Msg {
		_, err := m.src.Decide(m.ctx, it, d)
		return decided{it.Approval.ID, err}
	}
}

// aside gives the terminal to the source.
func (m *Model) aside(it Item, d *Decision) tea.Cmd {
	return tea.Exec(&asideCommand{run: func() error { return m.src.Ask(m.ctx, it, d) }}, func(err error) tea.Msg { return decided{it.Approval.ID, err} })
}
