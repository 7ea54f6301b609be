package conversation

import "encoding/json"

// peekMax bounds what is kept of a member's name or value. codex's ids are
// numbers and its methods are short; ours are below it by far.
const peekMax = 1 << 10

// A peeker reads the id and the method of one JSON object that is too long to
// keep, wherever they stand in it. It sees every byte once and keeps next to
// nothing; what is not JSON leaves it empty-handed.
type peeker struct {
	method string
	id     json.RawMessage
	result bool // there is one

	depth    int
	inString bool
	escaped  bool
	inValue  bool // behind the colon, at the object's own level
	nested   bool // the value at hand is an object or a list
	over     bool // the token at hand is longer than peekMax
	name     string
	token    []byte
}

func (p *peeker) feed(b []byte) {
	for _, c := range b {
		p.next(c)
	}
}

func (p *peeker) next(c byte) {
	if p.inString {
		p.keep(c)
		switch {
		case p.escaped:
			p.escaped = false
		case c == '\\':
			p.escaped = true
		case c == '"':
			p.inString = false
			if p.depth == 1 && !p.inValue {
				p.name = ""
				if !p.over {
					_ = json.Unmarshal(p.token, &p.name) // a broken name is no name of ours
				}
			}
		}
		return
	}
	switch c {
	case '"':
		p.inString = true
		if p.depth == 1 {
			p.token, p.over = p.token[:0], false
		}
		p.keep(c)
	case '{', '[':
		p.depth++
		if p.depth > 1 {
			p.nested = true
		}
	case '}', ']':
		if p.depth == 1 {
			p.endValue()
		}
		p.depth--
	case ':':
		if p.depth == 1 {
			p.inValue, p.nested, p.over, p.token = true, false, false, p.token[:0]
			p.result = p.result || p.name == "result"
		}
	case ',':
		if p.depth == 1 {
			p.endValue()
		}
	case ' ', '\t', '\r':
	default:
		p.keep(c)
	}
}

func (p *peeker) keep(c byte) {
	if p.depth != 1 {
		return
	}
	if len(p.token) >= peekMax {
		p.over = true
		return
	}
	p.token = append(p.token, c)
}

func (p *peeker) endValue() {
	if p.inValue && !p.nested && !p.over {
		switch p.name {
		case "method":
			_ = json.Unmarshal(p.token, &p.method) // another type is no method
		case "id":
			if validID(p.token) {
				p.id = append(json.RawMessage(nil), p.token...)
			}
		}
	}
	p.inValue, p.name = false, ""
}
