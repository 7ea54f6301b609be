package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// A head is what the gateway reads of a request for an answer.
type head struct {
	model      string
	stream     bool
	background bool
}

var errNoRequest = errors.New("the request is no JSON object with a model")

// headOf reads members by their exact names. The provider gets the request as it is and may read
// a name that is there twice, or in capitals, in another way: such a request is refused, so that
// the model that is priced is the one that is asked.
func headOf(text []byte) (h head, err error) {
	if !json.Valid(text) {
		return h, errNoRequest
	}
	members := members{text: text}
	if !members.open() {
		return h, errNoRequest
	}
	seen := map[string]bool{}
	for {
		rawName, value, ok := members.next()
		if !ok {
			return h, nil
		}
		var name string
		if err := json.Unmarshal(rawName, &name); err != nil {
			return h, errNoRequest
		}
		for _, known := range []string{"model", "stream", "background"} {
			switch {
			case !strings.EqualFold(name, known):
				continue
			case name != known:
				return h, fmt.Errorf("the request has a member %q, expected %q", excerpt(name), known)
			case seen[known]:
				return h, fmt.Errorf("the request has more than one member %q", known)
			}
			seen[known] = true
			switch known {
			case "model":
				err = json.Unmarshal(value, &h.model)
			case "stream":
				err = json.Unmarshal(value, &h.stream)
			default:
				h.background = string(value) != "false" && string(value) != "null"
			}
			if err != nil {
				return h, errNoRequest
			}
		}
	}
}

// members walks through the members of a valid JSON object. It copies nothing: requests are long.
type members struct {
	text []byte
	at   int
}

func (m *members) space() {
	for m.at < len(m.text) && strings.IndexByte(" \t\r\n", m.text[m.at]) >= 0 {
		m.at++
	}
}

// open reports whether the text is an object.
func (m *members) open() bool {
	m.space()
	m.at++
	return m.text[m.at-1] == '{'
}

func (m *members) next() (name, value []byte, ok bool) {
	m.space()
	if m.text[m.at] == ',' {
		m.at++
		m.space()
	}
	if m.text[m.at] == '}' {
		return nil, nil, false
	}
	name = m.value()
	m.space()
	m.at++ // the colon
	m.space()
	return name, m.value(), true
}

// value goes over a value.
func (m *members) value() []byte {
	from, depth := m.at, 0
	for ; m.at < len(m.text); m.at++ {
		switch m.text[m.at] {
		case '"':
			for m.at++; m.text[m.at] != '"'; m.at++ {
				if m.text[m.at] == '\\' {
					m.at++
				}
			}
			if depth == 0 {
				m.at++
				return m.text[from:m.at]
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return m.text[from:m.at] // the end of the object after a number or a word
			}
			if depth == 0 {
				m.at++
				return m.text[from:m.at]
			}
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return m.text[from:m.at]
			}
		}
	}
	return m.text[from:m.at]
}
