package wire

// stirring notifications may change what a session waits for.
var stirring = map[string]bool{
	"serverRequest/resolved": true,
	"turn/started":           true,
	"turn/completed":         true,
	"thread/closed":          true,
	"error":                  true,
}

// Stirs reports whether a session that waits for a person must react to this line. It reads
// only the id and the method.
func (l Line) Stirs() bool {
	id, method := l.ID, l.Method
	if !l.Oversize {
		var p peeker
		p.feed(l.Raw)
		id, method = p.id, p.method
	}
	return method != "" && id != nil || stirring[method]
}
