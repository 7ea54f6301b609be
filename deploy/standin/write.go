package standin

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

type object map[string]any

var idle = object{"type": "idle"}

func active(flags ...string) object {
	if flags == nil {
		flags = []string{}
	}
	return object{"type": "active", "activeFlags": flags}
}

// write gives one line to whoever reads, with one call of the system: the
// journal is appended to, and nobody sees half a line.
func (s *Server) write(line []byte) {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	if _, err := s.out.Write(append(line, '\n')); err != nil {
		fmt.Fprintln(s.errs, "codex: write:", err)
	}
}

func (s *Server) send(v any) {
	line, err := json.Marshal(v)
	if err != nil {
		fmt.Fprintln(s.errs, "codex: encode:", err)
		return
	}
	s.write(line)
}

func (s *Server) answer(id json.RawMessage, result any) {
	s.send(object{"id": id, "result": result})
}

func (s *Server) refuse(id json.RawMessage, text string) { s.fail(id, -32600, text) }

func (s *Server) fail(id json.RawMessage, code int, text string) {
	s.send(object{"id": id, "error": object{"code": code, "message": text}})
}

func (s *Server) notify(method string, params object) {
	s.send(object{"method": method, "params": params, "emittedAtMs": nowMS()})
}

// delta is written by hand: it is what there is thousands of.
func (s *Server) delta(buf []byte, t *turn, item, text string) []byte {
	buf = append(buf[:0], `{"method":"item/agentMessage/delta","params":{"threadId":"`...)
	buf = append(buf, t.thread.id...)
	buf = append(buf, `","turnId":"`...)
	buf = append(buf, t.id...)
	buf = append(buf, `","itemId":"`...)
	buf = append(buf, item...)
	buf = append(buf, `","delta":"`...)
	buf = append(buf, text...) // of our own making: nothing to escape
	buf = append(buf, `"},"emittedAtMs":`...)
	buf = strconv.AppendInt(buf, nowMS(), 10)
	buf = append(buf, '}')
	s.write(buf)
	return buf
}

// newID is a UUID that begins with the time, as codex's do.
func newID() string {
	ms := uint64(time.Now().UnixMilli())
	a, b := rand.Uint64(), rand.Uint64()
	return fmt.Sprintf("%08x-%04x-7%03x-%04x-%012x", ms>>16, ms&0xffff, a&0xfff, 0x8000|a>>16&0x3fff, b&0xffffffffffff)
}
