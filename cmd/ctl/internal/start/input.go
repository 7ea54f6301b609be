package start

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
)

// InputFlags are for what goes with a message.
type InputFlags struct {
	images, files []string
	schema        string
}

// Add adds the flags. A steering message has no output schema: the turn belongs to another.
func (f *InputFlags) Add(c *cobra.Command, steers bool) {
	fl := c.Flags()
	fl.StringArrayVar(&f.images, "image", nil, "show the model the image in this `FILE` (PNG, JPEG, GIF or WebP, 20 MiB at most); repeatable")
	fl.StringArrayVar(&f.files, "file", nil, "put this `FILE` (64 MiB at most) on the host, outside the work folder, and tell the model where; repeatable")
	if !steers {
		fl.StringVar(&f.schema, "output-schema", "", "make the turn end with JSON that matches the JSON schema in this `FILE`, as far as the model provider enforces it; the JSON is printed")
	}
}

// Extras go with a message. They are checked, not stored.
type Extras struct {
	inputs []localInput
	schema []byte
	Work   *WorkspaceFlags // nil once the session has started
}

// A localInput is a file on this machine.
type localInput struct {
	protocol.Input
	path string
}

// Look checks the files and the schema.
func (f *InputFlags) Look() (Extras, error) {
	var x Extras
	for _, list := range []struct {
		kind  protocol.InputKind
		flag  string
		paths []string
	}{{protocol.InputImage, "--image", f.images}, {protocol.InputFile, "--file", f.files}} {
		for _, path := range list.paths {
			in, err := lookInput(list.flag, list.kind, path)
			if err != nil {
				return x, err
			}
			x.inputs = append(x.inputs, in)
		}
	}
	if n := len(x.inputs); n > protocol.MaxInputs {
		return x, core.Usage("%d files with one message: at most %d", n, protocol.MaxInputs).Hinted("pack them into one")
	}
	if f.schema == "" {
		return x, nil
	}
	data, err := core.ReadSmall("--output-schema", f.schema, protocol.MaxSchema)
	if err != nil {
		return x, err
	}
	if err := cmp.Or(activities.CheckSchema(data), checkOutputSchema(data)); err != nil {
		return x, core.Usage("--output-schema %s: %v", f.schema, err)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, data); err != nil {
		return x, core.Usage("--output-schema %s: %v", f.schema, err)
	}
	x.schema = b.Bytes()
	return x, nil
}

// Named identifies the extras in a request's digest, without paths.
func (x Extras) Named() []any {
	out := []any{string(x.schema)}
	for _, in := range x.inputs {
		out = append(out, in.Input)
	}
	return out
}

func lookInput(flag string, kind protocol.InputKind, path string) (in localInput, err error) {
	r, size, err := core.OpenRegular(flag, path)
	if err != nil {
		return in, err
	}
	defer r.Close()
	switch most := kind.MaxBytes(); {
	case size == 0:
		return in, core.Usage("%s %s is empty", flag, path)
	case size > most:
		return in, core.Usage("%s %s has %.1f MiB: at most %d are taken", flag, path, float64(size)/(1<<20), most>>20).
			Hinted("put it on the host yourself and name its path")
	}
	head := make([]byte, 16)
	n, err := io.ReadFull(r, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return in, core.Failed("read %s: %v", path, err)
	}
	if kind == protocol.InputImage && activities.ImageType(head[:n]) == "" {
		return in, core.Usage("%s %s is not a PNG, JPEG, GIF or WebP image", flag, path).Hinted("--file takes files of any kind")
	}
	sum := sha256.New()
	sum.Write(head[:n])
	rest, err := io.Copy(sum, r)
	if err != nil {
		return in, core.Failed("read %s: %v", path, err)
	}
	in.path = path
	in.Input = protocol.Input{Kind: kind, Name: activities.InputName(filepath.Base(path)), Digest: hex.EncodeToString(sum.Sum(nil)), Bytes: int64(n) + rest}
	return in, nil
}

// Attach uploads the extras under folder for the message.
func Attach(ctx context.Context, a *core.App, t *conn.Conn, folder string, x Extras, m *protocol.Message) error {
	a.Flags.Quiet = a.Flags.Quiet || len(x.schema) > 0 // only the JSON result is printed
	if len(x.schema) <= protocol.MaxSchemaInline {
		m.Schema = x.schema
	}
	if len(x.inputs) == 0 && len(x.schema) == len(m.Schema) {
		return nil
	}
	worker, err := conn.AnyWorker(ctx, a, t)
	if err != nil {
		return err
	}
	if len(m.Schema) == 0 && len(x.schema) > 0 {
		stored, err := worker.PutMessage(ctx, folder, string(x.schema))
		if err != nil {
			return conn.APIFailure("keep the output schema", err)
		}
		m.SchemaBlob = stored.Blob
	}
	for _, in := range x.inputs {
		r, _, err := core.OpenRegular("--"+string(in.Kind), in.path)
		if err != nil {
			return err
		}
		stored, err := worker.PutInput(ctx, folder, in.Input, r)
		r.Close()
		if err != nil {
			return conn.APIFailure("keep "+in.path, err)
		}
		m.Inputs = append(m.Inputs, stored)
	}
	return nil
}
