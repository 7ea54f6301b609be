package wire

import "encoding/json"

// PeekMax bounds the kept part of a name or value. codex's ids and methods are far shorter.
const PeekMax = 1 << 10

// onTheWay are the objects that lead to an item's id.
var onTheWay = []string{"params", "item"}

// A peeker reads the id, the method and the item's id of one JSON object that is too long
// to keep. It gets every byte once and reads nothing from a line that is not JSON.
type peeker struct {
	method string
	id     json.RawMessage
	result bool
	item   string // params.item.id

	depth    int
	level    int // depth of the innermost object being read: 1 for the whole, more for those of onTheWay
	inString bool
	escaped  bool
	inValue  bool // after a colon, at level
	nested   bool // the value is an object or a list
	over     bool // the token is longer than PeekMax
	name     string
	token    []byte
}

func (p *peeker) feed(b []byte) {
	for _, c := range b {
		p.next(c)
	}
}

// here reports whether the next byte belongs to the object being read, not to a nested one.
func (p *peeker) here() bool { return p.level > 0 && p.depth == p.level }

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
			if p.here() && !p.inValue {
				p.name = ""
				if !p.over {
					_ = json.Unmarshal(p.token, &p.name) // a broken name is none of ours
				}
			}
		}
		return
	}
	switch c {
	case '"':
		p.inString = true
		if p.here() {
			p.token, p.over = p.token[:0], false
		}
		p.keep(c)
	case '{', '[':
		p.enter(c)
	case '}', ']':
		p.leave()
	case ':':
		if p.here() {
			p.begin()
		}
	case ',':
		if p.here() {
			p.endValue()
		}
	case ' ', '\t', '\r':
	default:
		p.keep(c)
	}
}

func (p *peeker) enter(c byte) {
	leads := p.here() && p.inValue && !p.nested && c == '{' && p.level <= len(onTheWay) && p.name == onTheWay[p.level-1]
	p.depth++
	if p.depth == 1 || leads {
		p.level, p.inValue, p.nested, p.name = p.depth, false, false, ""
		return
	}
	if p.depth > 1 {
		p.nested = true
	}
}

// leave ends an object or a list. After an object of onTheWay, reading goes on in the outer
// one.
func (p *peeker) leave() {
	if p.here() {
		p.endValue()
		p.level--
		p.inValue, p.nested = true, true
	}
	p.depth--
}

func (p *peeker) begin() {
	p.inValue, p.nested, p.over, p.token = true, false, false, p.token[:0]
	if p.level != 1 {
		return
	}
	switch p.name {
	case "result":
		p.result = true
	case "params":
		p.item = "" // if the member comes twice, the second counts
	}
}

func (p *peeker) keep(c byte) {
	if !p.here() {
		return
	}
	if len(p.token) >= PeekMax {
		p.over = true
		return
	}
	p.token = append(p.token, c)
}

func (p *peeker) endValue() {
	if p.inValue && !p.nested && !p.over {
		switch {
		case p.level == 1 && p.name == "method":
			_ = json.Unmarshal(p.token, &p.method) // another type is no method
		case p.level == 1 && p.name == "id":
			if ValidID(p.token) {
				p.id = append(json.RawMessage(nil), p.token...)
			}
		case p.level == 1+len(onTheWay) && p.name == "id":
			_ = json.Unmarshal(p.token, &p.item)
		}
	}
	p.inValue, p.name = false, ""
}
