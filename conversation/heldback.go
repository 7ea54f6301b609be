package conversation

import "strings"

// What streams by is shown piece by piece, and a secret may lie in several
// pieces. So the end of what was said that may begin a secret is held back
// until more of it came; what is held when the item ends is shown by the
// finished entry.
//
// A pump that goes on where another ended has not got what that one held back,
// and must not find it in the workflow's state: only how much it was is there
// (OpenItem.Held). It hides those bytes, and what follows them until it is
// certain that it does not end a secret that they began.

// A tail is the end of what an item said that no viewer saw yet: first, if an
// earlier pump held it back, what nobody knows any more, then a text.
type tail struct {
	unknown int64
	text    string
}

func (t tail) len() int64 { return t.unknown + int64(len(t.text)) }

// show counts the next piece of an item's text and gives what of it, and of
// what was held back, may be shown, with its place.
func (m *machine) show(it *OpenItem, delta string) (at int64, text string) {
	r := m.opt.Redactor
	held := m.held[it.key()]
	if held.len() < it.Held {
		held = tail{unknown: it.Held}
	}
	at = it.Pos - held.len()
	it.Pos += int64(len(delta))
	text = held.text + delta
	if held.unknown > 0 {
		end, more := r.rest(text, held.unknown)
		if more {
			m.hold(it, tail{held.unknown, text})
			return at, ""
		}
		text = mask(int(held.unknown)+end) + m.redact(text)[end:]
	}
	text, begun := r.split(m.redact(text))
	m.hold(it, tail{text: begun})
	return at, text
}

func (m *machine) hold(it *OpenItem, t tail) {
	it.Held = t.len()
	if it.Held == 0 {
		delete(m.held, it.key())
		return
	}
	m.held[it.key()] = t
}

// holdAgain finds what an earlier pump held back, where it was read again.
func (m *machine) holdAgain(it *OpenItem, delta string) {
	if r := m.opt.Redactor; r != nil {
		_, begun := r.split(m.redact(m.held[it.key()].text + delta))
		m.held[it.key()] = tail{text: begun}
	}
}

// rest says how much of the beginning of s ends a secret that began among the
// up to n bytes before it; more says that this cannot be told yet.
func (r *Redactor) rest(s string, n int64) (end int, more bool) {
	if r == nil {
		return 0, false
	}
	for _, secret := range r.known.Load().secrets {
		for before := 1; before < len(secret) && int64(before) <= n; before++ {
			rest := secret[before:]
			if strings.HasPrefix(s, rest) {
				end = max(end, len(rest))
			} else if strings.HasPrefix(rest, s) {
				more = true
			}
		}
	}
	return end, more
}
