package wire

// stirring holds the notifications after which a session may wait for something else.
var stirring = map[string]bool{
	"serverRequest/resolved": true,
	"turn/started":           true,
	"turn/completed":         true,
	"thread/closed":          true,
	"error":                  true,
}

// Stirs reports whether a session that waits for a person must react to this line of codex:
// a request, a withdrawn request, the beginning or the end of a turn. It reads only the
// line's id and method.
func (l Line) Stirs() bool {
	id, method := l.ID, l.Method
	if !l.Oversize {
		var p peeker
		p.feed(l.Raw)
		id, method = p.id, p.method
	}
	return method != "" && id != nil || stirring[method]
}
