package wire

import "encoding/json"

// PeekMax bounds the kept part of a member's name or value. codex's ids are numbers
// and its methods are short; ours are far shorter than the bound.
const PeekMax = 1 << 10

// onTheWay names the nested objects that lead to an item's id.
var onTheWay = []string{"params", "item"}

// A peeker reads the id and the method of one JSON object that is too long to keep, and the
// id of the item in its params, wherever they stand. It gets every byte once and keeps only
// a few. It reads nothing from a line that is not JSON.
type peeker struct {
	method string
	id     json.RawMessage
	result bool   // there is a result
	item   string // params.item.id

	depth    int
	level    int // depth of the innermost object being read: 1 for the whole, more for the objects of onTheWay
	inString bool
	escaped  bool
	inValue  bool // after a colon, at level
	nested   bool // the current value is an object or a list
	over     bool // the current token is longer than PeekMax
	name     string
	token    []byte
}

func (p *peeker) feed(b []byte) {
	for _, c := range b {
		p.next(c)
	}
}

// here reports whether the next byte belongs to the object being read and not to a
// nested one.
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
					_ = json.Unmarshal(p.token, &p.name) // a broken name is none that the peeker looks for
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

// leave ends an object or a list. After an object of onTheWay, reading continues in
// the outer object behind that value.
func (p *peeker) leave() {
	if p.here() {
		p.endValue()
		p.level--
		p.inValue, p.nested = true, true
	}
	p.depth--
}

// begin is called where a member's value begins.
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
			_ = json.Unmarshal(p.token, &p.item) // another type is no item's id
		}
	}
	p.inValue, p.name = false, ""
}
