package conversation

import "strings"

// Streamed text is shown piece by piece, and a secret may span several pieces. So the end
// of the text is held back while it may begin a secret. When the item ends, the finished
// entry shows the text that is still held back.
//
// A pump that takes over from another does not have the text that was held back. It must
// not get that text through the workflow's state, which has only the text's length
// (OpenItem.Held). The pump hides as many bytes. It also hides the following bytes until
// they certainly do not end a secret that began in the hidden text.

// A tail is the end of an item's text that no viewer has seen. It begins with the bytes
// that an earlier pump held back, whose content this pump does not know. The text follows
// them.
type tail struct {
	unknown int64
	text    string
}

func (t tail) len() int64 { return t.unknown + int64(len(t.text)) }

// show counts the next piece of an item's text. It returns the text that may be shown,
// taken from the text held back and this piece, and the offset of that text.
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

// holdAgain takes a piece that is read again, and restores the text that an earlier pump
// held back.
func (o *items) holdAgain(it *OpenItem, delta string) {
	if r := o.opt.Redactor; r != nil {
		_, begun := r.split(o.redact(o.held[it.key()].text + delta))
		o.held[it.key()] = tail{text: begun}
	}
}

// rest returns how much of the beginning of s ends a secret that began in the n bytes
// before s. more says that only further text can decide this.
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
