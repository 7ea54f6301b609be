package conversation

import "strings"

// Streamed text is shown piece by piece, and a secret may span several pieces. So
// the end of the text is held back while it may begin a secret. What is still held
// when the item ends is shown by the finished entry.
//
// A pump that takes over from another does not have the text that was held back,
// and must not get it through the workflow's state, which has only its length
// (OpenItem.Held). The pump hides those bytes, and the following ones until it is
// certain that they do not end a secret that began there.

// A tail is the end of an item's text that no viewer has seen: first the bytes that
// an earlier pump held back and that are unknown now, then text.
type tail struct {
	unknown int64
	text    string
}

func (t tail) len() int64 { return t.unknown + int64(len(t.text)) }

// show counts the next piece of an item's text. It returns the part of it, and of
// what was held back, that may be shown, and the offset of that part.
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

// holdAgain restores what an earlier pump held back from a piece that is read
// again.
func (o *items) holdAgain(it *OpenItem, delta string) {
	if r := o.opt.Redactor; r != nil {
		_, begun := r.split(o.redact(o.held[it.key()].text + delta))
		o.held[it.key()] = tail{text: begun}
	}
}

// rest returns how much of the beginning of s ends a secret that began in the n
// bytes before s. more says that this cannot be decided yet.
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
