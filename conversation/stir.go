package conversation

// stirring are the notifications that change what a session waits for.
var stirring = map[string]bool{
	"serverRequest/resolved": true,
	"turn/started":           true,
	"turn/completed":         true,
	"thread/closed":          true,
	"error":                  true,
}

// Stirs says whether a session that waits for a person has to be attended to
// because of a line that codex wrote meanwhile: a request, one that was taken
// back, the beginning or the end of a turn. It reads the line's id and method
// and nothing else.
func (l Line) Stirs() bool {
	id, method := l.ID, l.Method
	if !l.Oversize {
		var p peeker
		p.feed(l.Raw)
		id, method = p.id, p.method
	}
	return method != "" && id != nil || stirring[method]
}
