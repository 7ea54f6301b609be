package tunnel

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

const (
	frameData = 'd'
	frameEnd  = 'e'
	frameOver = 'x'

	headSize   = 3
	maxPiece   = 32 << 10 // bytes of data in a frame that is sent
	maxFailure = 4 << 10  // bytes of a Failure
)

// A Failure says why a connection was not made, or was lost.
type Failure struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

func (f *Failure) Error() string { return f.Message }

// bounded returns the failure with texts that a frame has room for.
func (f *Failure) bounded() *Failure {
	const most = 500 // bytes, which JSON may make six times as long
	cut := func(s string, most int) string {
		if len(s) > most {
			return s[:most] + "…"
		}
		return s
	}
	return &Failure{Kind: cut(f.Kind, 40), Message: cut(f.Message, most), Hint: cut(f.Hint, most/4)}
}

// marshal returns the failure as JSON.
func (f *Failure) marshal() []byte {
	data, err := json.Marshal(f.bounded())
	if err != nil {
		panic(err) // it consists of texts
	}
	return data
}

// appendHead appends the head of a frame.
func appendHead(b []byte, kind byte, length int) []byte {
	return binary.BigEndian.AppendUint16(append(b, kind), uint16(length))
}

// A frameReader reads frames of a response.
type frameReader struct {
	from *bufio.Reader
	left int // bytes of the current frame
}

func newFrames(from io.Reader) *frameReader {
	return &frameReader{from: bufio.NewReaderSize(from, headSize+maxPiece)}
}

// next returns the next data, which is valid until the next call; io.EOF at the end of this
// direction, and a *Failure if the connection is over.
func (r *frameReader) next(buf []byte) ([]byte, error) {
	for r.left == 0 {
		var head [headSize]byte
		if _, err := io.ReadFull(r.from, head[:]); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF // the end of the direction has a frame of its own
			}
			return nil, err
		}
		length := int(binary.BigEndian.Uint16(head[1:]))
		switch head[0] {
		case frameData:
			r.left = length
		case frameEnd:
			return nil, io.EOF
		case frameOver:
			if length > maxFailure {
				return nil, fmt.Errorf("the peer sends a failure of %d bytes, at most %d are read", length, maxFailure)
			}
			text := make([]byte, length)
			if _, err := io.ReadFull(r.from, text); err != nil {
				return nil, err
			}
			return nil, failureOf(text)
		default:
			return nil, fmt.Errorf("the peer sends a frame of the unknown kind %q", head[0])
		}
	}
	n, err := r.from.Read(buf[:min(len(buf), r.left)])
	r.left -= n
	if n > 0 {
		return buf[:n], nil
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return nil, err
}

func failureOf(text []byte) *Failure {
	var f Failure
	if err := json.Unmarshal(text, &f); err != nil || f.Message == "" {
		return &Failure{Kind: "internal", Message: "the worker ended the connection and did not say why"}
	}
	return f.bounded()
}
