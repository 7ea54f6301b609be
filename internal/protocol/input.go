package protocol

// An Input is a file that goes with a message. The caller of Run first puts it on
// codex's host and sets Path. codex reads an image itself when the message comes,
// and keeps it in the thread's history. For any other file the model is told the
// path, because codex does not pass a mention of a file on to it (measured on all
// of Tested).
type Input struct {
	Kind   InputKind `json:"kind"`
	Name   string    `json:"name"`
	Blob   string    `json:"blob"`   // the file's key in the store
	Digest string    `json:"digest"` // SHA-256, hex
	Bytes  int64     `json:"bytes"`
	// Path is the file's path on the host.
	Path string `json:"-"`
}

// InputKind says what codex does with an Input.
type InputKind string

// MaxBytes returns the size that an input of that kind may have.
func (k InputKind) MaxBytes() int64 {
	if k == InputImage {
		return MaxImage
	}
	return MaxFile
}

// The kinds.
const (
	InputImage InputKind = "image" // shown to the model
	InputFile  InputKind = "file"  // named to the model
)

// Bounds on the inputs of a message.
const (
	MaxInputs = 10
	MaxImage  = 20 << 20 // bytes of one
	MaxFile   = 64 << 20
)

// NoteChars bounds the characters that an Input adds to its message, besides its path.
const NoteChars = 300

// MaxSchema bounds an output schema, in bytes.
const MaxSchema = 64 << 10

// Tools names all of them.
var Tools = []string{ToolAskHuman, ToolDeliver, ToolProgress}

// Our tools that a session may offer to codex, by the names that the model uses.
// They are dynamic tools, which every supported codex has: thread/start defines
// them, and the thread keeps them.
const (
	ToolAskHuman = "ask_human"       // asks a person a question, as a Request
	ToolDeliver  = "deliver"         // hands over a file
	ToolProgress = "report_progress" // reports progress
)
