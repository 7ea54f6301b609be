package seeds

// Kind says how codex will prove who it is.
type Kind string

// The kinds of seeds.
const (
	KindAPIKey      Kind = "api_key"
	KindChatGPT     Kind = "chatgpt"
	KindAccessToken Kind = "access_token"
	KindProvider    Kind = "provider"
)

// A Manifest lists what is in a seed. It holds names and digests, no content,
// so it may be kept in a workflow and shown to people.
type Manifest struct {
	Name  string     `json:"name,omitempty"`
	Kind  Kind       `json:"kind"`
	Files []FileInfo `json:"files"`
}

// A FileInfo describes one file.
type FileInfo struct {
	Path   string `json:"path"`   // below CODEX_HOME, slashes
	Mode   string `json:"mode"`   // octal, "0600"
	Digest string `json:"digest"` // SHA-256 of the content, hex
	Size   int64  `json:"size"`
}

// Digest is the SHA-256 (hex) of the manifest without its name: two seeds of
// the same content have the same digest.
func (m Manifest) Digest() string { panic("pending") }

// A Bundle is the files of a seed, in memory, validated. It is not changed
// after it was made and is safe for concurrent use.
type Bundle struct{}

// Pack reads a folder laid out like a CODEX_HOME. It returns an error that
// says what is wrong and how to mend it when the folder is no seed.
func Pack(dir string) (*Bundle, error) { panic("pending") }

// Unpack reads what Bytes wrote, and validates it again.
func Unpack(data []byte) (*Bundle, error) { panic("pending") }

// Bytes is the bundle as a tar archive, the same for the same content. It holds secrets.
func (b *Bundle) Bytes() []byte { panic("pending") }

// Kind says how codex will prove who it is.
func (b *Bundle) Kind() Kind { panic("pending") }

// Manifest lists the bundle's files.
func (b *Bundle) Manifest() Manifest { panic("pending") }

// Ignored lists what Pack found in the folder and left out, sorted.
func (b *Bundle) Ignored() []string { panic("pending") }

// File returns the content of one file, nil if there is none. It may hold secrets.
func (b *Bundle) File(path string) []byte { panic("pending") }
