package conversation

import "strings"

// A secret may span several pieces of streamed text. So the end of the text is held back
// while it may begin a secret. The finished entry shows it.
//
// A pump that takes over must not get that text through the workflow's state, which has
// only its length (OpenItem.Held). The pump masks as many bytes, and the following ones
// until they certainly do not end a secret.

// A tail is the end of an item's text that no viewer has seen: unknown bytes of an earlier
// pump, then text.
type tail struct {
	unknown int64
	text    string
}

func (t tail) len() int64 { return t.unknown + int64(len(t.text)) }

// show counts the next piece and returns the text to show now, and its offset.
func (o *items) show(it *OpenItem, delta string) (at int64, text string) {
	r := o.opt.Redactor
	held := o.held[it.key()]
	if held.len() < it.Held {
		held = tail{unknown: it.Held}
	}
	at = it.Pos - held.len()
	it.Pos += int64(len(delta))
	text = held.text + delta
	if held.unknown > 0 {
		end, more := r.rest(text, held.unknown)
		if more {
			o.hold(it, tail{held.unknown, text})
			return at, ""
		}
		text = mask(int(held.unknown)+end) + o.redact(text)[end:]
	}
	text, begun := r.split(o.redact(text))
	o.hold(it, tail{text: begun})
	return at, text
}

func (o *items) hold(it *OpenItem, t tail) {
	it.Held = t.len()
	if it.Held == 0 {
		delete(o.held, it.key())
		return
	}
	o.held[it.key()] = t
}

// holdAgain restores held-back text from a piece that is read again.
func (o *items) holdAgain(it *OpenItem, delta string) {
	if r := o.opt.Redactor; r != nil {
		_, begun := r.split(o.redact(o.held[it.key()].text + delta))
		o.held[it.key()] = tail{text: begun}
	}
}

// rest returns how much of s ends a secret that began in the n bytes before. more says that
// further text must decide.
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
