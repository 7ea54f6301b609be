package wire

import (
	"encoding/json"
	"unicode/utf8"

	"fairlead.dev/fairlead/internal/protocol"
)

// A Piece is the content of a delta line. Nearly all lines of a turn are delta lines of one
// shape, which PieceReader reads many times faster than Parse. All other lines are left to
// Parse.
type Piece struct {
	Of protocol.EntryType
	At int64 // emittedAtMs
	// Thread and Item say whose text it is.
	Thread, Item []byte
	Text         string
}

// PieceOf returns the entry type of this method's deltas, or "" if it has none.
func PieceOf[T string | []byte](method T) protocol.EntryType {
	switch string(method) { // copies nothing
	case "item/agentMessage/delta", "item/plan/delta":
		return protocol.EntryAssistant
	case "item/reasoning/summaryTextDelta", "item/reasoning/textDelta":
		return protocol.EntryReasoning
	case "item/commandExecution/outputDelta":
		return protocol.EntryCommand
	}
	return ""
}

// SlowPiece returns the piece in a parsed message.
func SlowPiece(of protocol.EntryType, params json.RawMessage) (Piece, bool) {
	var n DeltaNotice
	if json.Unmarshal(params, &n) != nil || n.Delta == "" {
		return Piece{}, false
	}
	return Piece{Of: of, Thread: []byte(n.ThreadID), Item: []byte(n.ItemID), Text: n.Delta}, true
}

// A PieceReader reads JSON only as codex writes it: no spaces, no repeated or unknown
// names. Its buffer is reused.
type PieceReader struct {
	raw []byte
	at  int
	buf []byte
}

// Read reads a whole line; ok is false if it is no piece.
func (r *PieceReader) Read(line []byte) (p Piece, ok bool) {
	const method, params, emitted = 1, 2, 4
	r.raw, r.at = line, 0
	seen := 0
	for sep := byte('{'); ; sep = ',' {
		if !r.is(sep) {
			break
		}
		name, ok := r.name()
		if !ok {
			return Piece{}, false
		}
		bit := 0
		switch string(name) {
		case "method":
			bit = method
			word, plain := r.word()
			p.Of = PieceOf(word)
			ok = plain && p.Of != ""
		case "params":
			bit = params
			ok = r.params(&p)
		case "emittedAtMs":
			bit = emitted
			p.At, ok = r.integer()
		}
		if !ok || bit == 0 || seen&bit != 0 {
			return Piece{}, false
		}
		seen |= bit
	}
	ok = r.is('}') && r.at == len(r.raw) && seen&(method|params) == method|params && p.Text != ""
	return p, ok
}

func (r *PieceReader) params(p *Piece) bool {
	const thread, turn, item, delta, index = 1, 2, 4, 8, 16
	seen := 0
	for sep := byte('{'); ; sep = ',' {
		if !r.is(sep) {
			break
		}
		name, ok := r.name()
		if !ok {
			return false
		}
		bit := 0
		switch string(name) {
		case "threadId":
			bit = thread
			p.Thread, ok = r.word()
		case "turnId":
			bit = turn
			_, ok = r.word()
		case "itemId":
			bit = item
			p.Item, ok = r.word()
		case "delta":
			bit = delta
			p.Text, ok = r.text()
		case "summaryIndex", "contentIndex":
			bit = index
			_, ok = r.integer()
		}
		if !ok || bit == 0 || seen&bit != 0 {
			return false
		}
		seen |= bit
	}
	return r.is('}')
}

func (r *PieceReader) is(c byte) bool {
	if r.at < len(r.raw) && r.raw[r.at] == c {
		r.at++
		return true
	}
	return false
}

func (r *PieceReader) name() ([]byte, bool) {
	name, ok := r.word()
	return name, ok && r.is(':')
}

// word reads a string of plain ASCII without escapes.
func (r *PieceReader) word() ([]byte, bool) {
	if !r.is('"') {
		return nil, false
	}
	for i, c := range r.raw[r.at:] {
		if c == '"' {
			w := r.raw[r.at : r.at+i]
			r.at += i + 1
			return w, true
		}
		if c == '\\' || c < ' ' || c >= utf8.RuneSelf {
			return nil, false
		}
	}
	return nil, false
}

// integer reads a number that certainly fits an int64.
func (r *PieceReader) integer() (n int64, ok bool) {
	begin := r.at
	for r.at < len(r.raw) && r.raw[r.at] >= '0' && r.raw[r.at] <= '9' {
		n = n*10 + int64(r.raw[r.at]-'0')
		r.at++
	}
	digits := r.at - begin
	return n, digits == 1 || digits > 1 && digits <= 18 && r.raw[begin] != '0'
}

// text reads any string without surrogates or invalid UTF-8.
func (r *PieceReader) text() (string, bool) {
	if !r.is('"') {
		return "", false
	}
	rest, escaped, ascii := r.raw[r.at:], false, true
	for i := 0; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == '"':
			r.at += i + 1
			text := rest[:i]
			if !ascii && !utf8.Valid(text) {
				return "", false
			}
			if escaped {
				return r.unescape(text)
			}
			return string(text), true
		case c == '\\':
			escaped = true
			i++
		case c < ' ':
			return "", false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return "", false
}

func (r *PieceReader) unescape(s []byte) (string, bool) {
	b := r.buf[:0]
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b = append(b, s[i])
			continue
		}
		i++ // text has checked that there is one more
		switch c := s[i]; c {
		case '"', '\\', '/':
			b = append(b, c)
		case 'b':
			b = append(b, '\b')
		case 'f':
			b = append(b, '\f')
		case 'n':
			b = append(b, '\n')
		case 'r':
			b = append(b, '\r')
		case 't':
			b = append(b, '\t')
		case 'u':
			code, ok := hex4(s[i+1:])
			if !ok || code >= 0xd800 && code < 0xe000 {
				return "", false
			}
			b = utf8.AppendRune(b, code)
			i += 4
		default:
			return "", false
		}
	}
	if cap(b) <= keepPieceBuf {
		r.buf = b
	}
	return string(b), true
}

func hex4(s []byte) (r rune, ok bool) {
	if len(s) < 4 {
		return 0, false
	}
	for _, c := range s[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// keepPieceBuf is the largest buffer that is kept.
const keepPieceBuf = 64 << 10
