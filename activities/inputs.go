package activities

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

// Files of messages come into the store by the worker's API, and from there onto the
// session's host before codex hears of them. They lie beside the work folder, so that no
// snapshot or diff has them. A sandbox that lets commands read the system lets them read
// these files; only one that does not confine them lets them write there. Each file lies
// in a folder named by its content, where another attempt finds or mends it.

// inputsDir is the folder of a session for what goes with messages.
func inputsDir(l protocol.Layout) string { return path.Join(l.Dir, "inputs") }

// InputsDir is where on a session's host files that go with messages are.
func InputsDir(l protocol.Layout) string { return inputsDir(l) }

func inputPath(l protocol.Layout, in protocol.Input) string {
	return path.Join(inputsDir(l), in.Digest[:16], in.Name)
}

// plantInputs puts the files of messages on the host, and sets their paths. If a file cannot
// be had from the store, its message is not said.
func (s *Sessions) plantInputs(ctx context.Context, in RunPumpInput, attempt int32) error {
	for i := range in.Pump.Sends {
		send := &in.Pump.Sends[i]
		if err := conversation.CheckInputs(send.Inputs); err != nil {
			send.Unsayable, send.Inputs = NotSaid+err.Error(), nil
			continue
		}
		send.Inputs = append([]protocol.Input(nil), send.Inputs...) // the caller's stay as they are
		for j := range send.Inputs {
			file := &send.Inputs[j]
			file.Path = inputPath(in.Layout, *file)
			if err := s.plantInput(ctx, in, *file, attempt); gone(err) {
				send.Unsayable = fmt.Sprintf("%sits file %s is not in the store (any more), or not as it was", NotSaid, file.Name)
			} else if err != nil {
				return fmt.Errorf("message %s: put its file %s on the host: %w", send.ID, file.Name, err)
			}
		}
	}
	for _, file := range in.Files {
		if conversation.CheckInputs([]protocol.Input{file}) != nil {
			continue
		}
		if err := s.plantInput(ctx, in, file, attempt); gone(err) {
			s.Logger.Warn("a file of an earlier message is not in the store any more", "session", in.Claim.Session, "file", file.Name)
		} else if err != nil {
			return fmt.Errorf("put %s, of an earlier message, on the host: %w", file.Name, err)
		}
	}
	return nil
}

// NotSaid begins the reason why a message was not said to codex, unless codex itself refused
// it.
const NotSaid = "it was not said to codex: "

// errNotAsSaid: a blob is not what a message says of it.
var errNotAsSaid = errors.New("its content is not what the message says")

// gone reports whether a blob cannot be had, however often it is tried.
func gone(err error) bool {
	return errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrTorn) || errors.Is(err, errNotAsSaid)
}

// lookInputScript says what is at $1: same if its SHA-256 is $2, strange if it is no file.
// If the host cannot tell, the file is brought again.
const lookInputScript = `LC_ALL=C; export LC_ALL
if [ -h "$1" ]; then echo strange; exit 0; fi
[ -e "$1" ] || { echo none; exit 0; }
[ -f "$1" ] || { echo strange; exit 0; }
if command -v sha256sum; then sum=$(sha256sum <"$1")
elif command -v shasum; then sum=$(shasum -a 256 <"$1")
elif command -v openssl; then sum=$(openssl dgst -sha256 -r <"$1")
else sum=
fi >/dev/null
if [ "${sum%% *}" = "$2" ]; then echo same; else echo other; fi`

func (s *Sessions) plantInput(ctx context.Context, in RunPumpInput, file protocol.Input, attempt int32) error {
	h, err := s.host(in.Claim.Host)
	if err != nil {
		return err
	}
	where := inputPath(in.Layout, file)
	fence := fenceOf(in.Claim, in.Layout.Dir, attempt)
	res, err := h.Run(ctx, hostexec.Command{Script: lookInputScript, Args: []string{where, file.Digest}})
	if err != nil {
		return err
	}
	switch strings.TrimSpace(string(res.Stdout)) {
	case "same":
		return nil
	case "strange": // an unconfined command put it there
		if err := hostexec.RemoveTree(ctx, h, where, in.Layout.Dir, &fence); err != nil {
			return err
		}
	}
	r, err := s.Store.NewReader(ctx, file.Blob)
	if err != nil {
		return err
	}
	defer r.Close()
	src := &source{r: r}
	err = hostexec.Upload(ctx, h, where, src, file.Bytes, file.Digest, 0o400, &fence)
	switch {
	case err == nil:
		return nil
	case src.err != nil && src.err != io.EOF:
		return src.err // of the store, not of the host
	case src.n < file.Bytes && src.err == io.EOF, errors.Is(err, hostexec.ErrSource):
		return fmt.Errorf("%w: %w", errNotAsSaid, err)
	}
	return err
}

// A source remembers how reading it went.
type source struct {
	r   io.Reader
	n   int64
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.n += int64(n)
	if err != nil {
		s.err = err
	}
	return n, err
}

// fillSchemas reads the output schemas that are too long for a workflow.
func (s *Sessions) fillSchemas(ctx context.Context, sends []conversation.Send) error {
	for i := range sends {
		send := &sends[i]
		if send.SchemaBlob == "" || len(send.Schema) > 0 {
			continue
		}
		if !owned.Is(send.SchemaBlob, owned.Messages) {
			return badInput("message %s: blob %q is none of an output schema", send.ID, send.SchemaBlob)
		}
		data, err := s.Store.Get(ctx, send.SchemaBlob)
		switch {
		case gone(err):
			send.Unsayable = NotSaid + "its output schema is not in the store (any more)"
			continue
		case err != nil:
			return fmt.Errorf("read the output schema of message %s: %w", send.ID, err)
		}
		if err := conversation.CheckSchema(data); err != nil {
			send.Unsayable = NotSaid + err.Error()
			continue
		}
		send.Schema = data
	}
	return nil
}
