package httpapi_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
)

// folders has one file in the work folder of each session.
type folders struct{}

func (folders) WorkDiff(_ context.Context, session string, _ bool) (protocol.WorkDiff, error) {
	return protocol.WorkDiff{Session: session}, nil
}

func (folders) FetchFiles(_ context.Context, session string, paths []string, moving bool, to io.Writer) error {
	if paths[0] == "missing" {
		return errors.New("it is not there")
	}
	if _, err := fmt.Fprintf(to, "%q of %q", paths, session); err != nil {
		return err
	}
	if paths[0] == "torn" {
		if _, err := to.Write(bytes.Repeat([]byte("x"), 1<<20)); err != nil {
			return err
		}
		return errors.New("the host is gone")
	}
	return nil
}

func reprOf(data string) string {
	sum := sha256.Sum256([]byte(data))
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
}

// upload are the headers of an upload.
func upload(kind, data string) []string {
	return []string{"Content-Type", kind, "Repr-Digest", reprOf(data)}
}

// aTree is an archive of a work folder with one file.
func aTree(text string) string {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "./notes.txt", Size: int64(len(text)), Mode: 0o644})
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		panic(err)
	}
	return b.String()
}

const octets, tarball = "application/octet-stream", "application/x-tar"

// A file that goes with a message is kept if it is what its headers say.
func TestAFileIsUploadedWithItsDigest(t *testing.T) {
	p := serve(t)
	c := contractOf(p)
	const at = "/v1/inputs?session=s1&name=notes.txt"
	r := p.ask("operator", "POST", at, "hello", append(upload(octets, "hello"), "Idempotency-Key", "k")...)
	c.holds("POST", "/v1/inputs", r)
	var in protocol.Input
	if err := json.Unmarshal(r.body, &in); err != nil || r.status != 201 || in.Name != "notes.txt" || in.Kind != protocol.InputFile || in.Bytes != 5 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if data, err := p.store.Get(t.Context(), in.Blob); err != nil || string(data) != "hello" {
		t.Errorf("kept is %q, %v", data, err)
	}
	if again := p.ask("operator", "POST", at, "hello", append(upload(octets, "hello"), "Idempotency-Key", "k")...); string(again.body) != string(r.body) {
		t.Errorf("again %d %s", again.status, again.body)
	}
	sent, err := json.Marshal(map[string]any{"text": "read it", "inputs": []protocol.Input{in}})
	if err != nil {
		t.Fatal(err)
	}
	if r := p.ask("operator", "POST", "/v1/sessions/s1/messages", string(sent)); r.status != 202 {
		t.Errorf("a message with it: %d %s", r.status, r.body)
	}
	for name, q := range map[string]struct {
		target, body, digest, want string
		status                     int
		header                     []string
	}{
		"another digest":     {at, "hello", reprOf("other"), "does not match", 400, nil},
		"no digest":          {at, "hello", "", "Repr-Digest", 400, nil},
		"a digest of MD5":    {at, "hello", "md5=:XUFAKrxLKna5cZ2REBfFkg==:", "no sha-256", 400, nil},
		"a digest in hex":    {at, "hello", "sha-256=2cf24dba", "between colons", 400, nil},
		"no name":            {"/v1/inputs?session=s1", "hello", reprOf("hello"), "query.name", 422, nil},
		"a folder":           {"/v1/inputs?session=s1&name=a%2Fb", "hello", reprOf("hello"), "plain file name", 400, nil},
		"no owner":           {"/v1/inputs?name=a", "hello", reprOf("hello"), "give one of", 400, nil},
		"two owners":         {at + "&batch=b", "hello", reprOf("hello"), "give one of", 400, nil},
		"no picture":         {at + "&kind=image", "hello", reprOf("hello"), "is not a PNG", 400, nil},
		"nothing":            {at, "", reprOf(""), "", 0, nil},
		"packed":             {at, "hello", reprOf("hello"), "Content-Encoding", 415, []string{"Content-Encoding", "gzip"}},
		"the key of another": {at, "other", reprOf("other"), "stands for another upload", 422, []string{"Idempotency-Key", "k"}},
	} {
		r := p.ask("operator", "POST", q.target, q.body, append([]string{"Content-Type", octets, "Repr-Digest", q.digest}, q.header...)...)
		c.holds("POST", "/v1/inputs", r)
		if got := r.problem(t); r.status < 400 || q.status != 0 && r.status != q.status || !strings.Contains(got.Detail, q.want) {
			t.Errorf("%s: %d %s, want %d and %s", name, r.status, r.body, q.status, q.want)
		}
	}
}

// A session can begin with a folder that came as an archive, and the archive of a snapshot comes with
// its digest, whole or in parts.
func TestATreeIsUploadedAndItsArchiveIsDownloaded(t *testing.T) {
	p := serve(t)
	c := contractOf(p)
	tree := aTree(strings.Repeat("notes of the day\n", 100_000))
	send := func(key, data, digest string) reply {
		r := p.ask("operator", "POST", "/v1/trees?session=s1", data, "Content-Type", tarball, "Repr-Digest", digest, "Idempotency-Key", key)
		c.holds("POST", "/v1/trees", r)
		return r
	}
	r := send("tree", tree, reprOf(tree))
	var m snapshots.Manifest
	if err := json.Unmarshal(r.body, &m); err != nil || r.status != 201 || m.Files != 1 || m.By != "token:operator" {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if again := send("tree", tree, reprOf(tree)); again.status != 201 || string(again.body) != string(r.body) {
		t.Errorf("again %d %s", again.status, again.body)
	}
	if other := send("tree", aTree("x"), reprOf(aTree("x"))); other.status != 422 || other.problem(t).Kind != "key_reused" {
		t.Errorf("another one with the key: %d %s", other.status, other.body)
	}
	for name, bad := range map[string]reply{"a wrong digest": send("a", tree, reprOf("x")), "no archive": send("b", "hello", reprOf("hello")), "a part": send("c", tree[:2000], reprOf(tree[:2000]))} {
		if bad.status != 400 || bad.problem(t).Kind != "bad_input" {
			t.Errorf("%s: %d %s", name, bad.status, bad.body)
		}
	}
	list, err := snapshots.List(t.Context(), p.store, "s1")
	if err != nil || len(list) != 1 {
		t.Errorf("%d snapshots, %v", len(list), err)
	}
	p.partly(c, "/v1/sessions/{id}/snapshots/{snapshot}/archive", "/v1/sessions/s1/snapshots/"+m.ID+"/archive", tarball)
	whole := p.ask("viewer", "GET", "/v1/sessions/s1/snapshots/"+m.ID+"/archive", "")
	archive := tar.NewReader(bytes.NewReader(whole.body))
	names := ""
	for h, err := archive.Next(); err == nil; h, err = archive.Next() {
		names += h.Name + " "
	}
	if !strings.Contains(names, "work/notes.txt") {
		t.Errorf("the archive has %s", names)
	}
}

// partly reads a file whole and in parts.
func (p *place) partly(c *contract, pattern, target, kind string) {
	p.Helper()
	get := func(method string, header ...string) reply {
		p.Helper()
		r := p.ask("viewer", method, target, "", header...)
		if method == http.MethodGet && r.status != http.StatusNotModified {
			c.holds(method, pattern, r)
		}
		return r
	}
	whole := get("GET")
	data := string(whole.body)
	tag, sum := whole.header.Get("ETag"), sha256.Sum256(whole.body)
	if whole.status != 200 || whole.header.Get("Content-Type") != kind || whole.header.Get("Repr-Digest") != reprOf(data) || whole.header.Get("Fairlead-Sha256") != hex.EncodeToString(sum[:]) ||
		whole.header.Get("Content-Length") != fmt.Sprint(len(data)) || whole.header.Get("Accept-Ranges") != "bytes" || !strings.HasPrefix(whole.header.Get("Content-Disposition"), "attachment") {
		p.Errorf("whole: %d %v", whole.status, whole.header)
	}
	n := len(data)
	for _, q := range []struct {
		header []string
		status int
		want   string
	}{
		{[]string{"Range", fmt.Sprintf("bytes=%d-", n/2)}, 206, data[n/2:]},
		{[]string{"Range", "bytes=1-3"}, 206, data[1:4]},
		{[]string{"Range", "bytes=-5"}, 206, data[n-5:]},
		{[]string{"Range", "bytes=0-"}, 206, data},
		{[]string{"Range", "bytes=0-1,3-4"}, 200, data},
		{[]string{"Range", "bytes=1-3", "If-Range", tag}, 206, data[1:4]},
		{[]string{"Range", "bytes=1-3", "If-Range", `"other"`}, 200, data},
		{[]string{"If-None-Match", tag}, 304, ""},
		{[]string{"If-None-Match", `"other"`}, 200, data},
	} {
		r := get("GET", q.header...)
		if r.status != q.status || string(r.body) != q.want || q.status != 304 && r.header.Get("Repr-Digest") != reprOf(data) {
			p.Errorf("%q: %d with %d bytes and %v, want %d with %d bytes", q.header, r.status, len(r.body), r.header, q.status, len(q.want))
		}
	}
	if r := get("GET", "Range", fmt.Sprintf("bytes=%d-", n)); r.status != 416 || r.problem(p.T).Kind != "bad_input" || r.header.Get("Content-Range") != fmt.Sprintf("bytes */%d", n) {
		p.Errorf("a part beyond the end: %d %v %s", r.status, r.header, r.body)
	}
	if r := get("HEAD"); r.status != 200 || len(r.body) != 0 || r.header.Get("Repr-Digest") != reprOf(data) || r.header.Get("Content-Length") != fmt.Sprint(n) {
		p.Errorf("HEAD: %d %v", r.status, r.header)
	}
}

// A deliverable is sent whole and in parts. If the store has another content than was recorded, the
// connection is cut before the last byte.
func TestADeliverableThatIsNotWhatWasRecordedIsCutOff(t *testing.T) {
	p := serve(t)
	c := contractOf(p)
	data := strings.Repeat("the report\n", 50_000)
	sum := sha256.Sum256([]byte(data))
	h := records.Handover{Content: records.ContentKey("s1", "x"), Deliverable: protocol.Deliverable{Session: "s1", Call: "i1.7", Name: "out/report é.txt", Bytes: int64(len(data)), Digest: hex.EncodeToString(sum[:])}}
	raw, err := json.Marshal(h)
	if err == nil {
		err = errors.Join(p.store.Put(t.Context(), h.Content, []byte(data)), p.store.Put(t.Context(), records.HandoverKey("s1", "i1.7"), raw))
	}
	if err != nil {
		t.Fatal(err)
	}
	const pattern, target = "/v1/sessions/{id}/delivered/{call}", "/v1/sessions/s1/delivered/i1.7"
	p.partly(c, pattern, target, octets)
	for name, other := range map[string]string{"as long": strings.Replace(data, "the report\nthe", "the report\nTHE", 1), "shorter": data[:1000], "longer": data + "more"} {
		if err := p.store.Put(t.Context(), h.Content, []byte(other)); err != nil {
			t.Fatal(err)
		}
		for _, header := range [][]string{nil, {"Range", "bytes=600-"}} {
			var got []byte
			resp, err := p.try(t.Context(), "viewer", "GET", target, "", header...)
			if err == nil {
				got, err = io.ReadAll(resp.Body)
				resp.Body.Close()
			}
			if name == "longer" { // of which the recorded bytes are as they were
				if err != nil || !strings.HasSuffix(data, string(got)) {
					t.Errorf("%s, %v: %d bytes, %v", name, header, len(got), err)
				}
			} else if err == nil {
				t.Errorf("%s, %v: %d bytes came without an error", name, header, len(got))
			}
		}
	}
}

// Files of a work folder come as the host sends them. The digest comes at the end, and never after a
// part of them.
func TestFilesOfAWorkFolderComeWithTheirDigestAtTheEnd(t *testing.T) {
	p := serve(t)
	c := contractOf(p)
	const at = "/v1/sessions/s1/work/archive"
	resp := p.open(t.Context(), "viewer", "GET", at+"?path=a&path=b&while_running=true", "")
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 || string(data) != `["a" "b"] of "s1"` || resp.Trailer.Get("Repr-Digest") != reprOf(string(data)) {
		t.Errorf("%d %q, trailer %v, %v", resp.StatusCode, data, resp.Trailer, err)
	}
	if torn, err := p.try(t.Context(), "viewer", "GET", at+"?path=torn", ""); err == nil {
		defer torn.Body.Close()
		if got, err := io.ReadAll(torn.Body); err == nil || torn.Trailer.Get("Repr-Digest") != "" {
			t.Errorf("a host that goes away: %d bytes, trailer %v", len(got), torn.Trailer)
		}
	}
	for target, status := range map[string]int{at: 422, at + "?path=missing": 503, at + "?path=a" + strings.Repeat("&path=a", 100): 422} {
		r := p.ask("viewer", "GET", target, "")
		c.holds("GET", "/v1/sessions/{id}/work/archive", r)
		if r.status != status || r.problem(t).Kind == "" {
			t.Errorf("%.60s: %d %s, want %d", target, r.status, r.body, status)
		}
	}
}
