package console

import (
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// leastPacked is the size from which an answer is compressed, in bytes.
const leastPacked = 1 << 10

var packers = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// send answers with data, compressed if the browser takes that. Whoever sees the size of a
// compressed page learns something about its text, so no page has a secret. Keys of forms only make
// a form count once.
func send(w http.ResponseWriter, r *http.Request, status int, data []byte) {
	h := w.Header()
	h.Add("Vary", "Accept-Encoding")
	if len(data) < leastPacked || !takesGzip(r) {
		h.Set("Content-Length", strconv.Itoa(len(data)))
		w.WriteHeader(status)
		_, _ = w.Write(data)
		return
	}
	h.Set("Content-Encoding", "gzip")
	w.WriteHeader(status)
	z := packers.Get().(*gzip.Writer)
	defer packers.Put(z)
	z.Reset(w)
	if _, err := z.Write(data); err == nil {
		_ = z.Close()
	}
}

// takesGzip reads the part of Accept-Encoding (RFC 9110) that browsers use. It returns false for
// a header that it does not understand.
func takesGzip(r *http.Request) bool {
	for _, header := range r.Header.Values("Accept-Encoding") {
		for word := range strings.SplitSeq(header, ",") {
			name, weight, _ := strings.Cut(strings.TrimSpace(word), ";")
			if strings.EqualFold(name, "gzip") && strings.TrimRight(strings.TrimSpace(weight), "0.") != "q=" {
				return true
			}
		}
	}
	return false
}
