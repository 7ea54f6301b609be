package hostexec

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"fairlead.dev/fairlead/hostexec/internal/script"
)

//go:embed below.sh
var belowScript string

// Below names a file in a folder that somebody else may change at any moment.
type Below struct {
	// Folder is an absolute path. If it leads through a symbolic link, the result is
	// NoFolder. Links are allowed only in Base, the beginning of Folder.
	Folder, Base string
	Path         string // relative to Folder, or absolute
	// Max bounds the file's size, in bytes.
	Max int64
	// Without, if set, is a folder whose files are never given, unless Folder lies in it.
	Without string
}

// A BelowFile describes a file that ReadBelow gives.
type BelowFile struct {
	Path   string // relative to Folder, without links
	Size   int64
	SHA256 string // hex; empty in the call of begin if the host cannot compute it
}

// NotGiven is why a file is not given. Only with Changed may a part of its content have
// been passed on.
type NotGiven string

// Reasons for NotGiven.
const (
	NotThere     NotGiven = "missing"
	LeadsNowhere NotGiven = "dangling" // a link to nothing
	Outside      NotGiven = "outside"  // outside of the folder, perhaps through a link
	IsFolder     NotGiven = "directory"
	NotAFile     NotGiven = "special" // FIFO, socket, device
	Unreadable   NotGiven = "unreadable"
	TooLarge     NotGiven = "large"
	Changed      NotGiven = "changed" // while it was read
	NoFolder     NotGiven = "folder"  // the folder is gone or replaced by a link
)

func (n NotGiven) Error() string { return "file is not given: " + string(n) }

// A TooLargeError is a TooLarge with the file's size and the limit.
type TooLargeError struct{ Size, Max int64 }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%v: %d bytes, at most %d", TooLarge, e.Size, e.Max)
}
func (e *TooLargeError) Unwrap() error { return TooLarge }

// ReadBelow reads a regular file if it lies in the folder. It calls begin with the file's
// properties and writes the content to the returned writer. Location, type and size are
// those of the opened file, so others may swap files and links meanwhile. An error that
// wraps a NotGiven means that the file must not be given. A hard link in the folder counts
// as a file in the folder.
func ReadBelow(ctx context.Context, h Host, b Below, begin func(BelowFile) (io.Writer, error)) (BelowFile, error) {
	f, err := readBelow(ctx, h, b, begin)
	if err != nil {
		return BelowFile{}, fmt.Errorf("read %s below %s on %s: %w", b.Path, b.Folder, h.Name(), SentBy(h, err))
	}
	return f, nil
}

// maxBelowHead exceeds what belowScript prints before a file of the longest path.
const maxBelowHead = 64 << 10

func readBelow(ctx context.Context, h Host, b Below, begin func(BelowFile) (io.Writer, error)) (f BelowFile, err error) {
	if err := script.CheckPath(b.Folder); err != nil {
		return f, err
	}
	base := cmp.Or(b.Base, "/")
	if base != "/" && b.Folder != base && !strings.HasPrefix(b.Folder, base+"/") {
		return f, fmt.Errorf("%q does not begin with %q", b.Folder, base)
	}
	rest := strings.TrimPrefix(strings.TrimPrefix(b.Folder, base), "/")
	path := b.Path
	if !strings.HasPrefix(path, "/") {
		path = "./" + path // path may begin with a dash
	}
	if b.Path == "" || strings.ContainsAny(path, "\x00\n") {
		return f, NotThere
	}
	s, err := h.Start(ctx, Command{Bulk: true, Script: belowScript, Args: []string{b.Folder, path, strconv.FormatInt(b.Max, 10), b.Without, base, rest}})
	if err != nil {
		return f, err
	}
	defer s.Close()
	in := bufio.NewReaderSize(s, 256<<10)
	head, err := ReadLine(in, maxBelowHead, "the description of a file")
	if errors.Is(err, ErrFlood) {
		return f, err
	}
	if err != nil {
		if werr := s.Wait(); werr != nil {
			return f, werr
		}
		if err == io.EOF {
			err = script.ErrGarbled
		}
		return f, err
	}
	if f, err = parseBelow(strings.TrimSuffix(head, "\n"), b.Max); err != nil {
		return f, err
	}
	to, err := begin(f)
	if err != nil {
		return f, err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(to, sum), io.LimitReader(in, f.Size))
	if err != nil {
		return f, err
	}
	if _, err := in.ReadByte(); err == nil {
		return f, &FloodError{What: "a file", Limit: f.Size}
	} else if err != io.EOF {
		return f, err
	}
	if err := s.Wait(); err != nil {
		return f, err
	}
	digest := hex.EncodeToString(sum.Sum(nil))
	if n != f.Size || f.SHA256 != "" && f.SHA256 != digest || bytes.Contains(s.Stderr(), []byte("changed\n")) {
		return f, Changed
	}
	f.SHA256 = digest
	return f, nil
}

func parseBelow(head string, max int64) (f BelowFile, err error) {
	word, rest, _ := strings.Cut(head, " ")
	switch word {
	case "no":
		why, size, _ := strings.Cut(rest, " ")
		switch n := NotGiven(why); n {
		case TooLarge:
			bytes, _ := strconv.ParseInt(size, 10, 64)
			return f, &TooLargeError{bytes, max}
		case NotThere, LeadsNowhere, Outside, IsFolder, NotAFile, Unreadable, NoFolder:
			return f, n
		case "unsupported":
			return f, fmt.Errorf("%w: no /proc, readlink or stat", ErrUnsupported)
		}
	case "file":
		parts := strings.SplitN(rest, " ", 3)
		if len(parts) == 3 {
			f.Size, err = strconv.ParseInt(parts[0], 10, 64)
			f.SHA256, f.Path = parts[1], parts[2]
			if f.SHA256 == "-" {
				f.SHA256 = ""
			}
			if err == nil && f.Size >= 0 && f.Size <= max {
				return f, nil
			}
		}
	}
	return f, errors.Join(script.ErrGarbled, fmt.Errorf("the host said %.100q", head))
}
