package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// A frame is one server-sent event.
type frame struct {
	kind string
	data []byte // JSON, or [DONE]
	read *body  // what data says, if that was read already
}

var doneMark = []byte("[DONE]")

func (f frame) done() bool { return bytes.Equal(f.data, doneMark) }

// text returns the frame as it is sent on.
func (f frame) text() []byte {
	out := make([]byte, 0, len(f.kind)+len(f.data)+20)
	if f.kind != "" {
		out = append(append(append(out, "event: "...), f.kind...), '\n')
	}
	for line := range bytes.SplitSeq(f.data, []byte("\n")) {
		out = append(append(append(out, "data: "...), line...), '\n')
	}
	return append(out, '\n')
}

var errGarbage = errors.New("the provider sent what is no event of the Responses API")

// A splitter makes frames of the bytes of a stream, in whatever pieces they come.
type splitter struct {
	most int // bytes of a frame
	line []byte
	kind []byte
	data []byte
	some bool // the frame has data
	size int
}

// feed returns the frames that end in b.
func (s *splitter) feed(b []byte) (out []frame, err error) {
	for len(b) > 0 {
		i := bytes.IndexByte(b, '\n')
		part := b
		if i >= 0 {
			part = b[:i]
		}
		if s.size += len(part); s.size > s.most {
			return out, fmt.Errorf("%w: an event has more than %d bytes", errGarbage, s.most)
		}
		s.line = append(s.line, part...)
		if i < 0 {
			return out, nil
		}
		b = b[i+1:]
		line := bytes.TrimSuffix(s.line, []byte("\r"))
		if len(line) == 0 {
			if s.some {
				f, err := s.frame()
				if err != nil {
					return out, err
				}
				out = append(out, f)
			}
			s.kind, s.data, s.some, s.size = nil, nil, false, 0
		} else {
			s.take(line)
		}
		s.line = s.line[:0]
	}
	return out, nil
}

func (s *splitter) take(line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "event":
		s.kind = bytes.Clone(value)
	case "data":
		if s.some {
			s.data = append(s.data, '\n')
		}
		s.data, s.some = append(s.data, value...), true
	}
}

// frame checks the data. The type within the data counts, not the event's name.
func (s *splitter) frame() (frame, error) {
	f := frame{data: s.data}
	if f.done() {
		return f, nil
	}
	b := &body{}
	err := json.Unmarshal(s.data, b)
	f.kind, f.read = b.Type, b
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) { // perhaps in a member that does not count here
		var head struct {
			Type string `json:"type"`
		}
		err = json.Unmarshal(s.data, &head)
		f.kind, f.read = head.Type, nil
	}
	if err != nil {
		return f, fmt.Errorf("%w: its data is no JSON object", errGarbage)
	}
	if f.kind == "" {
		f.kind = string(s.kind)
	}
	if f.kind == "" || bytes.ContainsAny([]byte(f.kind), "\r\n") {
		return f, fmt.Errorf("%w: it has no type", errGarbage)
	}
	return f, nil
}
