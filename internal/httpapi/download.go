package httpapi

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// Ranged are the headers of a request for a part of a file, or for a file that has changed.
type Ranged struct {
	Range       string `header:"Range" doc:"one part of the file, such as bytes=1000-; several parts are answered by the whole file"`
	IfRange     string `header:"If-Range" doc:"an ETag: the part counts only if the file still has it, otherwise the whole file comes"`
	IfNoneMatch string `header:"If-None-Match" doc:"an ETag: status 304 if the file still has it"`
}

// A download is a file of known content.
type download struct {
	name, kind string
	bytes      int64
	digest     string // hex SHA-256
	open       func() (io.ReadCloser, error)
	forget     func() // called if the content is not what was recorded; may be nil
	leave      func() // called at the end; may be nil
}

// reprDigest is a SHA-256 as the header Repr-Digest has it (RFC 9530).
func reprDigest(digest string) string {
	raw, err := hex.DecodeString(digest)
	if err != nil {
		return ""
	}
	return "sha-256=:" + base64.StdEncoding.EncodeToString(raw) + ":"
}

// send answers with a file, or with a part of it. It cuts the connection if the file is not what was
// recorded, so that nobody takes it for whole.
func (d download) send() *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(c huma.Context) {
		if d.leave != nil {
			defer d.leave()
		}
		r, w := humago.Unwrap(c)
		h := w.Header()
		h.Set("Content-Type", d.kind)
		h.Set("Content-Disposition", attachment(d.name))
		h.Set("ETag", `"`+d.digest+`"`)
		h.Set("Repr-Digest", reprDigest(d.digest))
		h.Set("Fairlead-Sha256", d.digest)
		if strings.Contains(r.Header.Get("Range"), ",") { // each part would read the file once
			r.Header.Del("Range")
		}
		file := &recorded{download: d, sum: sha256.New()}
		defer file.close()
		http.ServeContent(&parted{ResponseWriter: w, to: deadlined{w, http.NewResponseController(w)}}, r, "", time.Time{}, file)
		if file.err != nil {
			panic(http.ErrAbortHandler)
		}
	}}
}

// attachment names a file to browsers and to curl -J, without its folders.
func attachment(name string) string {
	if name = path.Base(name); name == "." || name == "/" {
		return "attachment"
	}
	if text := mime.FormatMediaType("attachment", map[string]string{"filename": name}); text != "" {
		return text
	}
	return "attachment"
}

// parted is an answer whose part that does not exist is a Problem.
type parted struct {
	http.ResponseWriter
	to      io.Writer
	refused bool
}

func (p *parted) WriteHeader(status int) {
	if status != http.StatusRequestedRangeNotSatisfiable {
		p.ResponseWriter.WriteHeader(status)
		return
	}
	p.refused = true
	h := p.Header()
	for _, name := range []string{"Content-Disposition", "ETag", "Repr-Digest", "Fairlead-Sha256"} {
		h.Del(name)
	}
	problem(status, "bad_input", "the header Range asks for a part that the file does not have", "Content-Range has the size of the file").write(p.ResponseWriter)
}

func (p *parted) Write(b []byte) (int, error) {
	if p.refused {
		return len(b), nil
	}
	return p.to.Write(b)
}

// recorded reads a file from any position. It reads all bytes before the position, too, so that the
// last byte comes only if the content has the recorded digest.
type recorded struct {
	download
	in       io.ReadCloser
	sum      hash.Hash
	at, want int64
	err      error
}

func (f *recorded) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += f.want
	case io.SeekEnd:
		offset += f.bytes
	}
	if offset < 0 {
		return 0, errors.New("a position before the beginning of the file")
	}
	f.want = offset
	return offset, nil
}

func (f *recorded) Read(p []byte) (int, error) {
	if f.want >= f.bytes {
		return 0, io.EOF
	}
	n, err := f.read(p[:min(int64(len(p)), f.bytes-f.want)])
	if err != nil {
		f.err = err
	}
	return n, err
}

func (f *recorded) read(p []byte) (int, error) {
	if f.in == nil || f.at > f.want {
		f.close()
		in, err := f.open()
		if err != nil {
			return 0, err
		}
		f.in, f.at = in, 0
		f.sum.Reset()
	}
	if skip := f.want - f.at; skip > 0 {
		n, err := io.CopyN(f.sum, f.in, skip)
		if f.at += n; err != nil {
			return 0, cutOff(err)
		}
	}
	n, err := f.in.Read(p)
	f.sum.Write(p[:n])
	f.at += int64(n)
	f.want = f.at
	switch {
	case f.at == f.bytes && hex.EncodeToString(f.sum.Sum(nil)) != f.digest:
		if f.forget != nil {
			f.forget()
		}
		return 0, io.ErrUnexpectedEOF
	case f.at == f.bytes || n > 0:
		return n, nil
	}
	return n, cutOff(err)
}

// cutOff makes the end of a file that is too short an error.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (f *recorded) close() {
	if f.in != nil {
		_ = f.in.Close()
		f.in = nil
	}
}

// describeDownload sets what an operation that sends a file answers.
func (a *API) describeDownload(id, kind string) {
	a.describe(id, kind, &huma.Schema{Type: huma.TypeString, Format: "binary"})
	text := func(doc string) *huma.Param {
		return &huma.Param{Description: doc, Schema: &huma.Schema{Type: huma.TypeString}}
	}
	tag := text("the digest of the file, for If-Range and If-None-Match")
	whole := map[string]*huma.Param{
		"ETag":            tag,
		"Repr-Digest":     text("sha-256 of the whole file (RFC 9530)"),
		"Fairlead-Sha256": text("the same digest in hex"),
		"Accept-Ranges":   text("bytes"),
	}
	part := map[string]*huma.Param{"Content-Range": text("which bytes, and of how many")}
	for name, p := range whole {
		part[name] = p
	}
	for _, item := range a.huma.OpenAPI().Paths {
		if item.Get == nil || item.Get.OperationID != id {
			continue
		}
		ok := item.Get.Responses["200"]
		ok.Headers = whole
		item.Get.Responses["206"] = &huma.Response{Description: "A part of the file", Content: ok.Content, Headers: part}
		item.Get.Responses["304"] = &huma.Response{Description: "The file still has the ETag", Headers: map[string]*huma.Param{"ETag": tag}}
	}
}
