package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/workflows"
)

// inputFlags are the flags for what is sent with a message: images, files and an output
// schema.
type inputFlags struct {
	images, files []string
	schema        string
}

// add adds the flags. A message that steers a turn has no output schema, because the turn
// belongs to another message.
func (f *inputFlags) add(c *cobra.Command, steers bool) {
	fl := c.Flags()
	fl.StringArrayVar(&f.images, "image", nil, "show the model the image in this `FILE` (PNG, JPEG, GIF or WebP, 20 MiB at most); repeatable")
	fl.StringArrayVar(&f.files, "file", nil, "put this `FILE` (64 MiB at most) on the host, outside the work folder, and tell the model where; repeatable")
	if !steers {
		fl.StringVar(&f.schema, "output-schema", "", "have the turn end with JSON of the JSON schema in this `FILE`; codex and its provider see to that, and the JSON is printed")
	}
}

// extras is what goes with a message. It was checked, and is not in the store yet.
type extras struct {
	inputs []localInput
	schema []byte
	work   *workspaceFlags // where the session is to work; nil if it has already started
}

// A localInput is a file on this machine that goes with a message.
type localInput struct {
	activities.Input
	path string
}

// look checks the files and the schema, before anything starts.
func (f *inputFlags) look() (extras, error) {
	var x extras
	for _, list := range []struct {
		kind  activities.InputKind
		flag  string
		paths []string
	}{{activities.InputImage, "--image", f.images}, {activities.InputFile, "--file", f.files}} {
		for _, path := range list.paths {
			in, err := lookInput(list.flag, list.kind, path)
			if err != nil {
				return x, err
			}
			x.inputs = append(x.inputs, in)
		}
	}
	if n := len(x.inputs); n > activities.MaxInputs {
		return x, usage("%d files with one message: at most %d", n, activities.MaxInputs).hinted("pack them into one")
	}
	if f.schema == "" {
		return x, nil
	}
	data, err := readSmall("--output-schema", f.schema, activities.MaxSchema)
	if err != nil {
		return x, err
	}
	if err := cmp.Or(activities.CheckSchema(data), checkOutputSchema(data)); err != nil {
		return x, usage("--output-schema %s: %v", f.schema, err)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, data); err != nil {
		return x, usage("--output-schema %s: %v", f.schema, err)
	}
	x.schema = b.Bytes()
	return x, nil
}

// named returns what identifies the extras in the digest of a request. Paths are left out.
func (x extras) named() []any {
	out := []any{string(x.schema)}
	for _, in := range x.inputs {
		out = append(out, in.Input)
	}
	return out
}

// openRegular opens a regular file.
func openRegular(flag, path string) (*os.File, int64, error) {
	st, err := os.Stat(path) // check before opening, because opening a FIFO would block
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, 0, usage("%s %s: there is no such file", flag, path)
	case err != nil:
		return nil, 0, usage("%s %s: %v", flag, path, errors.Unwrap(err))
	case !st.Mode().IsRegular():
		return nil, 0, usage("%s %s is not a regular file", flag, path)
	}
	r, err := os.Open(path)
	if err != nil {
		return nil, 0, usage("%s %s: %v", flag, path, errors.Unwrap(err))
	}
	return r, st.Size(), nil
}

// lookInput checks a file and computes its digest.
func lookInput(flag string, kind activities.InputKind, path string) (in localInput, err error) {
	r, size, err := openRegular(flag, path)
	if err != nil {
		return in, err
	}
	defer r.Close()
	switch most := kind.MaxBytes(); {
	case size == 0:
		return in, usage("%s %s is empty", flag, path)
	case size > most:
		return in, usage("%s %s has %.1f MiB: at most %d are taken", flag, path, float64(size)/(1<<20), most>>20).
			hinted("put it on the host yourself and name its path")
	}
	head := make([]byte, 16)
	n, err := io.ReadFull(r, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return in, failed("read %s: %v", path, err)
	}
	if kind == activities.InputImage && activities.ImageType(head[:n]) == "" {
		return in, usage("%s %s is not a PNG, JPEG, GIF or WebP image", flag, path).hinted("--file takes files of any kind")
	}
	sum := sha256.New()
	sum.Write(head[:n])
	rest, err := io.Copy(sum, r)
	if err != nil {
		return in, failed("read %s: %v", path, err)
	}
	in.path = path
	in.Input = activities.Input{Kind: kind, Name: activities.InputName(filepath.Base(path)), Digest: hex.EncodeToString(sum.Sum(nil)), Bytes: int64(n) + rest}
	return in, nil
}

// readSmall reads a text file. most is its largest size in bytes.
func readSmall(flag, path string, most int) ([]byte, error) {
	r, _, err := openRegular(flag, path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	switch {
	case err != nil:
		return nil, failed("read %s: %v", path, err)
	case len(data) > most:
		return nil, usage("%s %s has more than %d bytes", flag, path, most)
	case !utf8.Valid(data):
		return nil, usage("%s %s is not UTF-8 text", flag, path)
	}
	return data, nil
}

// attach uploads what goes with a message to the store, under folder, and puts references
// to it into the message.
func (a *app) attach(ctx context.Context, t *temporal, folder string, x extras, m *workflows.Message) error {
	a.flags.quiet = a.flags.quiet || len(x.schema) > 0 // only the JSON result is printed
	if len(x.schema) <= workflows.MaxSchemaInline {
		m.Schema = x.schema
	}
	if len(x.inputs) == 0 && len(x.schema) == len(m.Schema) {
		return nil
	}
	worker, err := a.anyWorker(ctx, t)
	if err != nil {
		return err
	}
	if len(m.Schema) == 0 && len(x.schema) > 0 {
		stored, err := worker.PutMessage(ctx, folder, string(x.schema))
		if err != nil {
			return apiFailure("keep the output schema", err)
		}
		m.SchemaBlob = stored.Blob
	}
	for _, in := range x.inputs {
		r, _, err := openRegular("--"+string(in.Kind), in.path)
		if err != nil {
			return err
		}
		stored, err := worker.PutInput(ctx, folder, in.Input, r)
		r.Close()
		if err != nil {
			return apiFailure("keep "+in.path, err)
		}
		m.Inputs = append(m.Inputs, stored)
	}
	return nil
}

// threadFlags are settings of a codex thread.
type threadFlags struct{ instructions, personality string }

func (f *threadFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.instructions, "instructions", "", "what codex is told before all messages, in the developer's name: a `TEXT`, or the FILE that has it")
	fl.StringVar(&f.personality, "personality", "", "how codex speaks: none, friendly or pragmatic (codex before 0.169)")
}

func (f *threadFlags) set(opt *workflows.SessionOptions) error {
	text := f.instructions
	// A text without spaces is a file name, not an instruction, even if no such file
	// exists.
	if _, err := os.Stat(text); text != "" && (err == nil || !strings.ContainsFunc(text, unicode.IsSpace)) {
		data, err := readSmall("--instructions", text, workflows.MaxInstructions)
		if err != nil {
			return err
		}
		text = string(data)
	}
	if len(text) > workflows.MaxInstructions {
		return usage("--instructions: %d bytes, at most %d", len(text), workflows.MaxInstructions)
	}
	if !utf8.ValidString(text) {
		return usage("--instructions is not UTF-8 text")
	}
	if err := activities.CheckPersonality(f.personality); err != nil {
		return usage("--personality: %v", err)
	}
	opt.Instructions, opt.Personality = text, f.personality
	return nil
}
