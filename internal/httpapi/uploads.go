package httpapi

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
)

// Uploaded is a request whose body is a file. Its body is not read before the handler reads it.
type Uploaded struct {
	Keyed
	Length int64  `header:"Content-Length" minimum:"1" doc:"size of the file in bytes"`
	Digest string `header:"Repr-Digest" doc:"sha-256 of the file, as in sha-256=:BASE64: (RFC 9530); a file with another digest is not kept"`

	sent api.Sent
}

// Resolve implements huma.Resolver.
func (u *Uploaded) Resolve(c huma.Context) []error {
	r, w := humago.Unwrap(c)
	u.sent = api.Sent{W: w, R: r}
	return nil
}

var _ huma.Resolver = (*Uploaded)(nil)

// file returns the body, whose size and digest are known. random is used without a key.
func (u *Uploaded) file(ctx context.Context) (api.Sent, error) {
	sent := u.sent
	if sent.R.ContentLength < 0 {
		return sent, problem(http.StatusLengthRequired, "bad_input", "the header Content-Length is missing: it has the size of the file in bytes", "curl sets it with --data-binary @FILE or -T FILE")
	}
	if coding := sent.R.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return sent, problem(http.StatusUnsupportedMediaType, "bad_input", fmt.Sprintf("the header Content-Encoding is %.40q: send the file as it is", coding), "")
	}
	var err error
	if sent.Digest, err = digestIn(u.Digest); err != nil {
		return sent, errkind.Usage("the header Repr-Digest: %v", err).Hinted("Repr-Digest: sha-256=:$(openssl dgst -sha256 -binary FILE | base64):")
	}
	if sent.Request = u.of(ctx); sent.Request == "" {
		sent.Request = protocol.RandomID()
	}
	return sent, nil
}

// digestIn returns the SHA-256 in a header Repr-Digest, in hex. Other digests in it are not looked at.
func digestIn(header string) (string, error) {
	if header == "" {
		return "", errors.New("it is missing")
	}
	for part := range strings.SplitSeq(header, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if name != "sha-256" {
			continue
		}
		text, begins := strings.CutPrefix(value, ":")
		text, ends := strings.CutSuffix(text, ":")
		raw, err := base64.StdEncoding.DecodeString(text)
		if !begins || !ends || err != nil || len(raw) != 32 {
			return "", errors.New("its sha-256 is not 32 bytes in base64 between colons")
		}
		return hex.EncodeToString(raw), nil
	}
	return "", errors.New("it has no sha-256")
}

type inputUpload struct {
	Uploaded
	Session  string `query:"session" maxLength:"63" doc:"session whose message the file goes with; it may not exist yet"`
	Batch    string `query:"batch" maxLength:"63" doc:"in place of session, for messages of a batch that is not started yet"`
	Schedule string `query:"schedule" maxLength:"63" doc:"in place of session, for messages of a schedule that is not created yet"`
	Kind     string `query:"kind" enum:"file,image" default:"file" doc:"an image is shown to the model; it is told where another file is"`
	Name     string `query:"name" required:"true" maxLength:"100" doc:"name of the file, without a folder"`
}

type treeUpload struct {
	Uploaded
	Session string `query:"session" required:"true" maxLength:"63" doc:"session that is to begin with the folder; it may not exist yet"`
}

// ownerIn returns what a file is uploaded for.
func ownerIn(r *http.Request) (owned.Owner, error) {
	var found []owned.Owner
	for _, kind := range []string{owned.Session, owned.Batch, owned.Schedule} {
		if id := r.URL.Query().Get(kind); id != "" {
			found = append(found, owned.Owner{Kind: kind, ID: id})
		}
	}
	if len(found) != 1 {
		return owned.Owner{}, errors.New("give one of session, batch and schedule: what the file is for")
	}
	return found[0], found[0].Check()
}

func sessionIn(r *http.Request) (owned.Owner, error) {
	o := owned.Owner{Kind: owned.Session, ID: r.URL.Query().Get("session")}
	return o, o.Check()
}

func (a *API) addUploads() {
	add(a, spot{method: http.MethodPost, path: "/v1/inputs", id: "uploadInput", status: http.StatusCreated, verb: access.SessionMessage, owner: ownerIn,
		summary: fmt.Sprintf("Upload a file that goes with a message: at most %d MiB, an image at most %d MiB. The answer is an element of the field inputs of a message", protocol.MaxFile>>20, protocol.MaxImage>>20)},
		func(ctx context.Context, in *inputUpload) (*Body[protocol.Input], error) {
			sent, err := in.file(ctx)
			if err != nil {
				return nil, err
			}
			owner, err := ownerIn(sent.R)
			if err != nil {
				return nil, badInput("%v", err)
			}
			return answer(a.records.KeepInput(ctx, owner, sent, protocol.InputKind(in.Kind), in.Name))
		})
	a.takesFile("uploadInput", "application/octet-stream")
	add(a, spot{method: http.MethodPost, path: "/v1/trees", id: "uploadTree", status: http.StatusCreated, verb: access.SnapshotWrite, owner: sessionIn,
		summary: fmt.Sprintf("Upload a work folder as a tar archive, without .git: at most %d GiB. The answer's id is for the field from_snapshot of a start", api.MaxArchive>>30)},
		func(ctx context.Context, in *treeUpload) (*Body[snapshots.Manifest], error) {
			sent, err := in.file(ctx)
			if err != nil {
				return nil, err
			}
			leave, err := a.archives.enter(ctx)
			if err != nil {
				return nil, err
			}
			defer leave()
			return answer(a.records.KeepTree(ctx, in.Session, sent))
		})
	a.takesFile("uploadTree", "application/x-tar")
}

// takesFile says that the body of an operation is a file.
func (a *API) takesFile(id, kind string) {
	for _, item := range a.huma.OpenAPI().Paths {
		if item.Post != nil && item.Post.OperationID == id {
			item.Post.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{kind: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}}
		}
	}
}
