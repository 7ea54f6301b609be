package conversation

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

const (
	maxInputName = 100
)

var inputBlob = regexp.MustCompile("^owned/(session|batch|schedule)[.][a-z0-9][a-z0-9._-]{0,62}[.][0-9a-f]{16}(-[0-9a-f]{32})?/inputs/[0-9a-f]{64}$")

var hexDigest = regexp.MustCompile("^[0-9a-f]{64}$")

// CheckInputs refuses inputs that the worker's API would not have produced.
func CheckInputs(inputs []protocol.Input) error {
	if len(inputs) > protocol.MaxInputs {
		return fmt.Errorf("%d files are given; at most %d are allowed", len(inputs), protocol.MaxInputs)
	}
	for _, in := range inputs {
		if err := checkInput(in); err != nil {
			return fmt.Errorf("input %.100q: %w", in.Name, err)
		}
	}
	return nil
}

func checkInput(in protocol.Input) error {
	switch {
	case in.Kind != protocol.InputImage && in.Kind != protocol.InputFile:
		return fmt.Errorf("unknown kind %.20q: use image or file", in.Kind)
	case InputName(in.Name) != in.Name:
		return errors.New("its name is not a plain file name (no slashes, only printable characters, at most 100 bytes)")
	case !inputBlob.MatchString(in.Blob):
		return errors.New("its blob key was not issued by the worker's API: upload the file again")
	case !hexDigest.MatchString(in.Digest):
		return errors.New("its digest is not a SHA-256 in hex")
	case in.Bytes < 1 || in.Bytes > in.Kind.MaxBytes():
		return fmt.Errorf("it has %d bytes; 1 to %d are taken", in.Bytes, in.Kind.MaxBytes())
	}
	return nil
}

// InputName turns any name into a printable file name that is valid on every host.
func InputName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' || r == utf8.RuneError || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, name)
	if strings.Trim(name, ". ") == "" {
		return "file"
	}
	if len(name) > maxInputName { // keep the extension
		from := len(name) - maxInputName
		for !utf8.RuneStart(name[from]) {
			from++
		}
		name = name[from:]
	}
	if strings.Trim(name, ". ") == "" {
		return "file"
	}
	return name
}

// ImageType returns png, jpeg, gif or webp for an image that codex can show to a model;
// otherwise "".
func ImageType(head []byte) string {
	switch {
	case bytes.HasPrefix(head, []byte("\x89PNG\r\n\x1a\n")):
		return "png"
	case bytes.HasPrefix(head, []byte("\xff\xd8\xff")):
		return "jpeg"
	case bytes.HasPrefix(head, []byte("GIF87a")), bytes.HasPrefix(head, []byte("GIF89a")):
		return "gif"
	case len(head) >= 12 && string(head[:4]) == "RIFF" && string(head[8:12]) == "WEBP":
		return "webp"
	}
	return ""
}

func (s Send) turnInput() []wire.InputItem {
	items := []wire.InputItem{{Type: "text", Text: s.Text}}
	if note := fileNote(s.Inputs); note != "" {
		items = append(items, wire.InputItem{Type: "text", Text: note})
	}
	for _, in := range s.Inputs {
		if in.Kind == protocol.InputImage {
			items = append(items, wire.InputItem{Type: "localImage", Path: in.Path})
		}
	}
	return items
}

func fileNote(inputs []protocol.Input) string {
	var b strings.Builder
	for _, in := range inputs {
		if in.Kind == protocol.InputFile {
			fmt.Fprintf(&b, "\n- %s (%d bytes)", in.Path, in.Bytes)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "Files that come with this message are on this machine, to be read there (copy them before you change them):" + b.String()
}

func (s Send) checkInputs() error {
	for _, in := range s.Inputs {
		switch {
		case in.Kind != protocol.InputImage && in.Kind != protocol.InputFile:
			return fmt.Errorf("send %q: unknown kind %q of an input", s.ID, in.Kind)
		case s.Unsayable == "" && !path.IsAbs(in.Path):
			return fmt.Errorf("send %q: input %q has no absolute path on the host", s.ID, in.Name)
		}
	}
	return nil
}
