package seeds

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// Kind says how codex authenticates.
type Kind string

// The kinds of seeds.
const (
	KindAPIKey      Kind = "api_key"
	KindChatGPT     Kind = "chatgpt"
	KindAccessToken Kind = "access_token"
	KindProvider    Kind = "provider"
)

const (
	authFile   = "auth.json"
	configFile = "config.toml"
)

// A Manifest lists a seed's files without content, for workflows and people.
type Manifest struct {
	Name  string     `json:"name,omitempty"`
	Kind  Kind       `json:"kind"`
	Files []FileInfo `json:"files"`
}

// A FileInfo describes a file of a seed.
type FileInfo struct {
	Path   string `json:"path"`   // below CODEX_HOME, slashes
	Mode   string `json:"mode"`   // octal, "0600" or "0700"
	Digest string `json:"digest"` // SHA-256 of the content, hex
	Size   int64  `json:"size"`
}

// Digest returns the SHA-256 (hex) of all but the name.
func (m Manifest) Digest() string {
	m.Name = ""
	data, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return digest(data)
}

// A Bundle holds a seed's validated files. It is immutable and safe for concurrent use.
type Bundle struct {
	kind    Kind
	files   []file // sorted by path
	ignored []string
}

type file struct {
	path string
	exec bool
	data []byte
}

func (f file) mode() fs.FileMode {
	if f.exec {
		return 0o700
	}
	return 0o600
}

// Kind says how codex authenticates.
func (b *Bundle) Kind() Kind { return b.kind }

// Manifest lists the bundle's files.
func (b *Bundle) Manifest() Manifest {
	m := Manifest{Kind: b.kind, Files: []FileInfo{}}
	for _, f := range b.files {
		m.Files = append(m.Files, FileInfo{
			Path: f.path, Mode: fmt.Sprintf("%04o", f.mode()), Digest: digest(f.data), Size: int64(len(f.data)),
		})
	}
	return m
}

// Ignored lists what Pack left out, sorted. Folders end in a slash.
func (b *Bundle) Ignored() []string { return slices.Clone(b.ignored) }

// File returns a file's content, which may be secret; nil if there is none.
func (b *Bundle) File(path string) []byte {
	for _, f := range b.files {
		if f.path == path {
			return slices.Clone(f.data)
		}
	}
	return nil
}

// String contains no file content.
func (b Bundle) String() string {
	return fmt.Sprintf("seed of kind %s, %d files", b.kind, len(b.files))
}

// Format writes String for every verb.
func (b Bundle) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, b.String()) }

// Bytes returns a tar archive, which contains secrets. Equal bundles give equal bytes.
func (b *Bundle) Bytes() []byte {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range b.files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.path, Mode: int64(f.mode()), Size: int64(len(f.data)), Format: tar.FormatPAX}
		err := w.WriteHeader(h)
		if err == nil {
			_, err = w.Write(f.data)
		}
		if err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return buf.Bytes()
}

// Unpack reads and validates what Bytes returned.
func Unpack(data []byte) (*Bundle, error) {
	// The tar reader takes an archive that was cut between two files for complete.
	if !bytes.HasSuffix(data, make([]byte, 1024)) {
		return nil, errors.New("unpack seed: the archive has no end")
	}
	r := tar.NewReader(bytes.NewReader(data))
	var files []file
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("unpack seed: %w", err)
		}
		if h.Typeflag != tar.TypeReg || h.Size > maxFile {
			return nil, fmt.Errorf("unpack seed: %q is not a file of a seed", h.Name)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return nil, fmt.Errorf("unpack seed: %s: %w", h.Name, err)
		}
		files = append(files, file{path: h.Name, exec: h.Mode&0o100 != 0, data: content})
	}
	return newBundle(files, nil)
}

const (
	maxFile  = 4 << 20
	maxFiles = 2000
	maxBytes = 32 << 20
)

func tooMuch(total int) error {
	return fmt.Errorf("%d MiB are too much for a seed, which takes %d", total>>20, maxBytes>>20)
}

func newBundle(files []file, ignored []string) (*Bundle, error) {
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.path, b.path) })
	slices.Sort(ignored)
	total := 0
	for i, f := range files {
		if err := checkPath(f.path); err != nil {
			return nil, err
		}
		if i > 0 && files[i-1].path == f.path {
			return nil, fmt.Errorf("%s is there twice", f.path)
		}
		if len(f.data) > maxFile {
			return nil, fmt.Errorf("%s is larger than %d MiB, too large for a seed", f.path, maxFile>>20)
		}
		total += len(f.data)
	}
	if len(files) > maxFiles {
		return nil, fmt.Errorf("%d files are too many for a seed, which takes %d (move what codex does not need)", len(files), maxFiles)
	}
	if total > maxBytes {
		return nil, tooMuch(total)
	}
	b := &Bundle{files: files, ignored: ignored}
	own, err := settingsOf(b.File(settingsFile))
	if err != nil {
		return nil, err
	}
	config, err := effectiveConfig(b.File(configFile), own)
	if err != nil {
		return nil, err
	}
	kind, err := kindOf(b.File(authFile), config)
	if err != nil {
		return nil, err
	}
	b.kind = kind
	return b, nil
}

func checkPath(p string) error {
	if !isSeedPath(p) || path.Clean(p) != p || !fs.ValidPath(p) || len(p) > 400 {
		return fmt.Errorf("%q is not a file of a seed", p)
	}
	if !utf8.ValidString(p) || strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("%q: a file of a seed cannot have control characters in its name", p)
	}
	return nil
}

var (
	seedFiles   = []string{authFile, configFile, agentsFile, overrideFile}
	seedFolders = []string{"rules", "skills", "prompts"}
)

func isSeedPath(p string) bool {
	top, rest, below := strings.Cut(p, "/")
	if !below {
		return slices.Contains(seedFiles, p) || p == settingsFile
	}
	// codex unpacks its own skills there.
	if top == "skills" && (rest == ".system" || strings.HasPrefix(rest, ".system/")) {
		return false
	}
	return slices.Contains(seedFolders, top)
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
