package pumps

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

// A pump copies the files of messages from the store to the host before codex gets the
// message. They lie beside the work folder, so that no snapshot or diff has them. A command
// can read them if its sandbox lets it read the system, and write there only without a
// sandbox. Each lies in a folder named by its digest, so that another attempt finds it.

func inputsDir(l protocol.Layout) string { return folder.Inputs(l) }

// InputsDir is the host's folder for files of messages.
func InputsDir(l protocol.Layout) string { return inputsDir(l) }

// InputPath is an input file's path on the host.
func InputPath(l protocol.Layout, in protocol.Input) string {
	return path.Join(inputsDir(l), in.Digest[:16], in.Name)
}

// PlantInputs copies the files of messages to the host and sets their paths. A message
// whose file the store lacks becomes Unsayable, and codex does not get it.
func PlantInputs(ctx context.Context, s *site.Site, in RunPumpInput, attempt int32) error {
	for i := range in.Pump.Sends {
		send := &in.Pump.Sends[i]
		if err := conversation.CheckInputs(send.Inputs); err != nil {
			send.Unsayable, send.Inputs = NotSaid+err.Error(), nil
			continue
		}
		send.Inputs = append([]protocol.Input(nil), send.Inputs...) // not the caller's slice
		for j := range send.Inputs {
			file := &send.Inputs[j]
			file.Path = InputPath(in.Layout, *file)
			if err := plantInput(ctx, s, in, *file, attempt); gone(err) {
				send.Unsayable = fmt.Sprintf("%sits file %s is missing from the store, or its content has changed", NotSaid, file.Name)
			} else if err != nil {
				return fmt.Errorf("message %s: put its file %s on the host: %w", send.ID, file.Name, err)
			}
		}
	}
	for _, file := range in.Files {
		if conversation.CheckInputs([]protocol.Input{file}) != nil {
			continue
		}
		if err := plantInput(ctx, s, in, file, attempt); gone(err) {
			s.Logger.Warn("a file of an earlier message is not in the store any more", "session", in.Claim.Session, "file", file.Name)
		} else if err != nil {
			return fmt.Errorf("put %s, of an earlier message, on the host: %w", file.Name, err)
		}
	}
	return nil
}

// NotSaid begins the reason why codex did not get a message, unless codex refused it.
const NotSaid = "it was not said to codex: "

var errNotAsSaid = errors.New("its content is not what the message says")

// gone reports whether reading a blob again is useless.
func gone(err error) bool {
	return errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrTorn) || errors.Is(err, errNotAsSaid)
}

// lookInputScript prints same if the SHA-256 of $1 is $2, strange if $1 is not a file,
// none, or other, also if the host cannot compute the digest.
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

func plantInput(ctx context.Context, s *site.Site, in RunPumpInput, file protocol.Input, attempt int32) error {
	h, err := s.Host(in.Claim.Host)
	if err != nil {
		return err
	}
	where := InputPath(in.Layout, file)
	fence := folder.FenceOf(in.Claim, in.Layout.Dir, attempt)
	res, err := h.Run(ctx, hostexec.Command{Script: lookInputScript, Args: []string{where, file.Digest}})
	if err != nil {
		return err
	}
	switch strings.TrimSpace(string(res.Stdout)) {
	case "same":
		return nil
	case "strange": // an unconfined command put it there
		f, err := folder.LookFolder(ctx, h, in.Layout.Dir)
		if err != nil {
			return err
		}
		l := f.Layout(in.Layout) // a worker of an earlier release drops the room
		if err := hostexec.RemoveTree(ctx, h, InputPath(l, file), l.Seen(), &fence); err != nil {
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

// FillSchemas reads output schemas that are too long for a workflow from the store.
func FillSchemas(ctx context.Context, s *site.Site, sends []conversation.Send) error {
	for i := range sends {
		send := &sends[i]
		if send.SchemaBlob == "" || len(send.Schema) > 0 {
			continue
		}
		if !owned.Is(send.SchemaBlob, owned.Messages) {
			return kit.BadInput("message %s: %q is not the blob of an output schema", send.ID, send.SchemaBlob)
		}
		data, err := s.Store.Get(ctx, send.SchemaBlob)
		switch {
		case gone(err):
			send.Unsayable = NotSaid + "its output schema is missing from the store, or damaged there"
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

// FillBase reads base instructions that are too long for a workflow from the store.
func FillBase(ctx context.Context, s *site.Site, t *conversation.ThreadSpec) error {
	if t.BaseBlob == "" || t.Base != "" {
		return nil
	}
	if !owned.Is(t.BaseBlob, owned.Messages) {
		return kit.BadInput("%q is not the blob of base instructions", t.BaseBlob)
	}
	data, err := s.Store.Get(ctx, t.BaseBlob)
	switch {
	case gone(err):
		return kit.BadInput("the base instructions of the session are missing from the store, or damaged there")
	case err != nil:
		return fmt.Errorf("read the base instructions of the session: %w", err)
	}
	t.Base = string(data)
	return nil
}
