package console

import (
	"bytes"
	"compress/gzip"
	"net/http"
)

// A halfPage is a page whose beginning was sent: the browser gets the files that the page names
// while the console asks the API for the rest. Then it is too late for another status: a problem is
// shown on the page.
type halfPage struct {
	http.ResponseWriter
	z    *gzip.Writer // nil without compression
	done bool
}

// early sends the beginning of a page to a browser that opens it. Programs and the console's script
// get the page as a whole, because they go by the status.
func (v *visit) early(f frame) error {
	if v.r.Method != http.MethodGet || v.r.Header.Get("Sec-Fetch-Dest") != "document" {
		return nil
	}
	var b bytes.Buffer
	if err := templates()["problem"].ExecuteTemplate(&b, "beginning", f); err != nil {
		return err
	}
	header := v.w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Add("Vary", "Accept-Encoding")
	h := &halfPage{ResponseWriter: v.w}
	if takesGzip(v.r) {
		header.Set("Content-Encoding", "gzip")
		h.z = packers.Get().(*gzip.Writer)
		h.z.Reset(v.w)
	}
	v.w.WriteHeader(http.StatusOK)
	h.write(b.Bytes())
	if h.z != nil {
		_ = h.z.Flush() // the browser may be gone, as for each write
	}
	_ = http.NewResponseController(v.w).Flush()
	v.w = h
	return nil
}

func (h *halfPage) write(b []byte) {
	if h.z != nil {
		_, _ = h.z.Write(b)
		return
	}
	_, _ = h.ResponseWriter.Write(b)
}

// end sends the rest. It does nothing the second time.
func (h *halfPage) end(rest []byte) {
	if h.done {
		return
	}
	h.done = true
	h.write(rest)
	if h.z != nil {
		_ = h.z.Close()
		packers.Put(h.z)
	}
}
