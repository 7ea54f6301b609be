package conversation

import (
	"strings"
	"testing"

	"fairlead.dev/fairlead/conversation/wire"
)

// samePiece checks that if the piece reader reads a line, the parser reads the same from
// it.
func samePiece(t *testing.T, line []byte) (read bool) {
	t.Helper()
	var r wire.PieceReader
	p, ok := r.Read(line)
	if !ok {
		return false
	}
	msg, err := wire.Parse(line)
	if err != nil || msg.IsRequest() || msg.IsResponse() {
		t.Fatalf("%q was read as %+v; parsed it is %+v, %v", line, p, msg, err)
	}
	want, ok := wire.SlowPiece(wire.PieceOf(msg.Method), msg.Params)
	if !ok || want.Of == "" || p.Of != want.Of || string(p.Item) != string(want.Item) || p.Text != want.Text || p.At != msg.EmittedAtMS {
		t.Fatalf("%q was read as %+v, want %+v at %d", line, p, want, msg.EmittedAtMS)
	}
	return true
}

// The piece reader reads all streamed pieces. Otherwise it would be useless.
func TestStreamsAreReadAsPieces(t *testing.T) {
	for name, s := range streams(t) {
		if len(s[0]) == 0 || len(s[1]) < 10 {
			t.Fatalf("%s: %d lines and %d pieces", name, len(s[0]), len(s[1]))
		}
		for _, line := range s[1] {
			if !samePiece(t, []byte(line)) {
				t.Errorf("%s: parsed: %s", name, line)
			}
		}
		for _, line := range s[0] {
			if samePiece(t, []byte(line)) {
				t.Errorf("%s: a piece: %s", name, line)
			}
		}
	}
}

// The piece reader leaves unusual lines to the parser.
func TestUnusualLinesAreParsed(t *testing.T) {
	const params = `"params":{"threadId":"t","turnId":"u","itemId":"i","delta":"x"}`
	const method = `"method":"item/agentMessage/delta"`
	if !samePiece(t, []byte(`{`+params+`,`+method+`}`)) || !samePiece(t, []byte(`{`+method+`,`+params+`,"emittedAtMs":0}`)) {
		t.Fatal("a usual line is parsed")
	}
	for _, line := range []string{
		`{` + method + `,` + params + `,` + params + `}`,
		`{` + method + `,` + params + `,"Params":{"delta":"y"}}`,
		`{` + method + `,` + params + `,"id":1}`,
		`{` + method + `,` + params + `,"emittedAtMs":1e3}`,
		`{` + method + `,` + params + `,"emittedAtMs":-1}`,
		`{` + method + `,` + params + `,"emittedAtMs":01}`,
		`{` + method + `,` + params + `,"emittedAtMs":9223372036854775808}`,
		`{` + method + `,` + params + `}}`,
		`{` + method + `,` + params + `,}`,
		`{` + method + `,` + params,
		`{` + method + ` ,` + params + `}`,
		`{` + method + `}`,
		`{` + params + `}`,
		`[` + method + `]`,
		strings.Replace(`{`+method+`,`+params+`}`, `"t"`, `7`, 1),
		strings.Replace(`{`+method+`,`+params+`}`, `"t"`, `null`, 1),
		strings.Replace(`{`+method+`,`+params+`}`, `"i"`, `"\u0069"`, 1),
		strings.Replace(`{`+method+`,`+params+`}`, `"x"`, `""`, 1),
		strings.Replace(`{`+method+`,`+params+`}`, `"x"`, `"x","delta":"y"`, 1),
		strings.Replace(`{`+method+`,`+params+`}`, `"x"`, `"x","DELTA":"y"`, 1),
		strings.Replace(`{`+method+`,`+params+`}`, `"x"`, `"\ud83d\ude00"`, 1),
		strings.Replace(`{`+method+`,`+params+`}`, `"x"`, `"\u12g4"`, 1),
		strings.Replace(`{`+method+`,`+params+`}`, `"x"`, `"\u+123"`, 1),
		strings.Replace(`{`+method+`,`+params+`}`, `"x"`, `"\u12"`, 1),
		strings.Replace(`{`+method+`,`+params+`}`, `"x"`, `"\x41"`, 1),
		strings.Replace(`{`+method+`,`+params+`}`, `"x"`, "\"\xff\"", 1),
		strings.Replace(`{`+method+`,`+params+`}`, `"x"`, "\"\t\"", 1),
		strings.Replace(`{`+method+`,`+params+`}`, `"x"`, `"\"`, 1),
		"", "{", `{"`, `{"method":"`, `{"params":{"delta":"\`,
	} {
		if samePiece(t, []byte(line)) {
			t.Errorf("read as a piece: %s", line)
		}
	}
}

// FuzzPiece checks that if the piece reader reads a line, the parser reads the same from
// it.
func FuzzPiece(f *testing.F) {
	for _, s := range streams(f) {
		for _, line := range s[1] {
			f.Add([]byte(line))
		}
	}
	f.Add([]byte(`{"method":"item/plan/delta","params":{"delta":"\"\\\/\b\f\n\r\t\u00e9\u66f4\u0000\u001b[m","itemId":""}}`))
	f.Fuzz(func(t *testing.T, line []byte) { samePiece(t, line) })
}
