package seeds

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// A survey says where the tables of a TOML document are, so that keys can be added.
type survey struct {
	// headers maps a [table] to the offset after its header's line.
	headers map[string]int
	// dotted maps a table made by dotted keys to the [table] with these keys; an empty path
	// is the document itself.
	dotted map[string][]string
	// closed are paths that take no more keys.
	closed map[string]bool
}

func pathKey(path []string) string { return strings.Join(path, "\x00") }

func surveyConfig(doc []byte) (*survey, error) {
	s := &survey{headers: map[string]int{}, dotted: map[string][]string{}, closed: map[string]bool{}}
	var p unstable.Parser
	p.Reset(doc)
	var under []string
	for p.NextExpression() {
		e := p.Expression()
		path, end := keyOf(e)
		switch e.Kind {
		case unstable.Table:
			under = path
			s.headers[pathKey(path)] = lineEnd(doc, end)
		case unstable.ArrayTable:
			under = path
			s.closed[pathKey(path)] = true
		case unstable.KeyValue:
			whole := slices.Concat(under, path)
			for n := len(under) + 1; n < len(whole); n++ {
				s.dotted[pathKey(whole[:n])] = under
			}
			s.closed[pathKey(whole)] = true
		}
	}
	if p.Error() != nil {
		return nil, errors.New("config.toml is not valid TOML")
	}
	return s, nil
}

// keyOf also returns the offset after the key.
func keyOf(e *unstable.Node) (path []string, end int) {
	for it := e.Key(); it.Next(); {
		n := it.Node()
		path = append(path, string(n.Data))
		end = int(n.Raw.Offset + n.Raw.Length)
	}
	return path, end
}

func lineEnd(doc []byte, offset int) int {
	if i := bytes.IndexByte(doc[offset:], '\n'); i >= 0 {
		return offset + i + 1
	}
	return len(doc)
}

// room says how to add a key to a table: with own, in a new [table]; otherwise at offset at
// (-1 is the top) with the prefix dotted. ok is false if TOML allows neither.
func (s *survey) room(table []string) (at int, dotted []string, own, ok bool) {
	for n := 1; n <= len(table); n++ {
		if s.closed[pathKey(table[:n])] {
			return 0, nil, false, false
		}
	}
	if len(table) == 0 {
		return -1, nil, false, true
	}
	if at, there := s.headers[pathKey(table)]; there {
		return at, nil, false, true
	}
	for n := len(table); n > 0; n-- {
		if under, there := s.dotted[pathKey(table[:n])]; there {
			if len(under) == 0 {
				return -1, table, false, true
			}
			return s.headers[pathKey(under)], table[len(under):], false, s.headers[pathKey(under)] > 0
		}
		if _, there := s.headers[pathKey(table[:n])]; there {
			break
		}
	}
	return 0, nil, true, true
}
