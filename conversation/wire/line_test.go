package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func scanAll(t *testing.T, r io.Reader, offset int64, max int) ([]Line, int64) {
	t.Helper()
	s := NewScanner(r, offset, max)
	var all []Line
	for {
		l, err := s.Next()
		if err == io.EOF {
			return all, s.Torn()
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
}

func TestLinesHaveTheirPlaceInTheStream(t *testing.T) {
	text := "{\"a\":1}\n\n  \n\xff\xfe\n{\"b\":\"" + strings.Repeat("y", 50) + "\"}\nlast\r\ntorn"
	for name, r := range map[string]io.Reader{
		"whole":       strings.NewReader(text),
		"byte by one": iotest.OneByteReader(strings.NewReader(text)),
		"with EOF":    iotest.DataErrReader(strings.NewReader(text)),
	} {
		lines, torn := scanAll(t, r, 100, 0)
		if len(lines) != 6 || torn != 4 {
			t.Fatalf("%s: %d lines, %d torn", name, len(lines), torn)
		}
		at := int64(100)
		for i, l := range lines {
			if l.Offset != at || l.End != at+int64(len(l.Raw))+1 || string(l.Raw)+"\n" != text[l.Offset-100:l.End-100] {
				t.Errorf("%s: line %d is %q at %d to %d", name, i, l.Raw, l.Offset, l.End)
			}
			at = l.End
		}
		if !lines[1].Blank() || !lines[2].Blank() || lines[3].Blank() {
			t.Errorf("%s: blank lines are not told from others", name)
		}
	}
}

func TestLongLineIsSkippedButItsIDAndMethodAreRead(t *testing.T) {
	big := strings.Repeat(`\"},{`, 100)
	for name, c := range map[string]struct{ line, method, id string }{
		"id first":         {`{"id":7,"method":"ask","params":{"x":"` + big + `"}}`, "ask", "7"},
		"id last":          {`{"params":{"id":1,"method":"no","x":["` + big + `"]},"method":"ask","id":"s-1"}`, "ask", `"s-1"`},
		"spaces":           {`{ "params" : "` + big + `" , "method" : "ask" , "id" : -3 }`, "ask", "-3"},
		"answer":           {`{"id":"r","result":{"method":"no","t":"` + big + `"}}`, "", `"r"`},
		"notification":     {`{"method":"tell","params":"` + big + `"}`, "tell", ""},
		"escaped name":     {`{"\u0069d":5,"params":"` + big + `"}`, "", "5"},
		"id is an object":  {`{"id":{"id":1},"params":"` + big + `"}`, "", ""},
		"id is null":       {`{"id":null,"params":"` + big + `"}`, "", ""},
		"id is too long":   {`{"id":"` + strings.Repeat("i", 2*PeekMax) + `","method":"m"}`, "m", ""},
		"not JSON":         {strings.Repeat("id:1,method", 100), "", ""},
		"method is number": {`{"method":3,"id":1,"params":"` + big + `"}`, "", "1"},
	} {
		text := "{\"n\":1}\n" + c.line + "\n{\"n\":2}\n"
		for _, chunk := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
			lines, _ := scanAll(t, chunk, 0, 64)
			if len(lines) != 3 || !lines[1].Oversize || lines[1].Raw != nil {
				t.Fatalf("%s: %+v", name, lines)
			}
			if lines[1].Method != c.method || string(lines[1].ID) != c.id {
				t.Errorf("%s: method %q, id %q, want %q, %q", name, lines[1].Method, lines[1].ID, c.method, c.id)
			}
			if string(lines[2].Raw) != `{"n":2}` || lines[2].Offset != int64(len(text)-8) {
				t.Errorf("%s: the line behind is %+v", name, lines[2])
			}
		}
	}
}

func TestOfALongLineTheItemThatItIsAboutIsRead(t *testing.T) {
	big := strings.Repeat(`\"},{\"id\":\"no`, 100)
	for line, want := range map[string]string{
		`{"method":"m","params":{"item":{"id":"i-1","text":"` + big + `"}}}`:                                  "i-1",
		`{"params":{"x":{"id":"no"},"item":{"y":[{"id":"no"}],"text":"` + big + `","id":"i\u002d1"}},"id":3}`: "i-1",
		`{ "params" : { "item" : { "text" : "` + big + `" , "id" : "i-1" } , "z" : 1 } , "method" : "m" }`:    "i-1",
		`{"params":{"item":{"text":"` + big + `","id":7}}}`:                                                   "",
		`{"params":{"item":[{"id":"no","text":"` + big + `"}]}}`:                                              "",
		`{"params":[{"item":{"id":"no","text":"` + big + `"}}]}`:                                              "",
		`{"item":{"id":"no","text":"` + big + `"},"params":{"id":"no","params":{"item":{"id":"no"}}}}`:        "",
	} {
		lines, _ := scanAll(t, iotest.OneByteReader(strings.NewReader(line+"\n")), 0, 64)
		if len(lines) != 1 || !lines[0].Oversize || lines[0].Item != want {
			t.Errorf("of %.60s… the item is %+v, want %q", line, lines, want)
		}
	}
}

type endless struct{ n int }

func (e *endless) Read(p []byte) (int, error) {
	if e.n <= 0 {
		return 0, errors.New("enough")
	}
	n := min(len(p), e.n)
	for i := range p[:n] {
		p[i] = 'x'
	}
	e.n -= n
	return n, nil
}

func TestEndlessLineNeedsBoundedMemory(t *testing.T) {
	length := 256 << 20
	if testing.Short() {
		length = 16 << 20 // the race detector makes it slow; it is far above the bound all the same
	}
	s := NewScanner(&endless{n: length}, 0, 1<<20)
	if _, err := s.Next(); err == nil {
		t.Fatal("an endless line ended")
	}
	if held := cap(s.split.buf) + cap(s.split.peek.token) + cap(s.chunk); held > 4<<20 {
		t.Errorf("%d bytes are held", held)
	}
	if s.Torn() != int64(length) {
		t.Errorf("%d bytes behind the last newline", s.Torn())
	}
}

func FuzzScanner(f *testing.F) {
	f.Add([]byte("{\"id\":1,\"method\":\"m\"}\n\nx\n"), uint8(8))
	f.Add([]byte(`{"params":{"a":[1,{"b":"\"}"}]},"id":"s","method":"m"}`+"\n"), uint8(1))
	f.Fuzz(func(t *testing.T, text []byte, bound uint8) {
		max := int(bound) + 1
		lines, torn := scanAll(t, bytes.NewReader(text), 0, max)
		parts := bytes.Split(text, []byte("\n"))
		if len(lines) != len(parts)-1 || int(torn) != len(parts[len(parts)-1]) {
			t.Fatalf("%d lines and %d bytes torn in %q", len(lines), torn, text)
		}
		for i, l := range lines {
			if l.Oversize != (len(parts[i]) > max) {
				t.Fatalf("line %d: oversize %t", i, l.Oversize)
			}
			if !l.Oversize {
				if !bytes.Equal(l.Raw, parts[i]) {
					t.Fatalf("line %d is %q, want %q", i, l.Raw, parts[i])
				}
				continue
			}
			// The parser finds what the peeker finds in JSON.
			var m struct {
				ID     json.RawMessage `json:"id"`
				Method json.RawMessage `json:"method"`
			}
			var names map[string]json.RawMessage
			if json.Unmarshal(parts[i], &names) != nil || json.Unmarshal(parts[i], &m) != nil {
				continue
			}
			if id := names["id"]; l.ID != nil && string(bytes.TrimSpace(id)) != string(l.ID) && !bytes.Contains(parts[i], []byte(`\`)) {
				t.Fatalf("line %d: id %s, want %s", i, l.ID, id)
			}
			for _, name := range []string{"params", "item"} {
				raw := names[name]
				names = nil
				_ = json.Unmarshal(raw, &names) // a value that is not an object has no members
			}
			if id := names["id"]; l.Item != "" && string(id) != `"`+l.Item+`"` && bytes.Count(parts[i], []byte(`"i`)) == 2 && !bytes.Contains(parts[i], []byte(`\`)) {
				t.Fatalf("line %d: item %s, want %s", i, l.Item, id)
			}
		}
	})
}
