package protocol

// An Input is a file that goes with a message. The caller of Run first puts it on codex's
// host and sets Path. codex keeps an image in the thread's history. The model is told the
// path of any other file, because codex does not pass on a mention of a file (measured on
// all of wire.Tested).
type Input struct {
	Kind   InputKind `json:"kind"`
	Name   string    `json:"name"`
	Blob   string    `json:"blob"`   // key in the store
	Digest string    `json:"digest"` // hex SHA-256
	Bytes  int64     `json:"bytes"`
	// Path is on the host.
	Path string `json:"-"`
}

// InputKind says how codex uses an Input.
type InputKind string

// MaxBytes is the largest size of such an input.
func (k InputKind) MaxBytes() int64 {
	if k == InputImage {
		return MaxImage
	}
	return MaxFile
}

const (
	InputImage InputKind = "image" // shown to the model
	InputFile  InputKind = "file"  // the model is told the path
)

// Bounds on the inputs of a message.
const (
	MaxInputs = 10
	MaxImage  = 20 << 20 // bytes
	MaxFile   = 64 << 20
)

// NoteChars bounds what an Input adds to its message, besides its path.
const NoteChars = 300

// MaxSchema bounds an output schema, in bytes.
const MaxSchema = 64 << 10

// Tools names Fairlead's tools.
var Tools = []string{ToolAskHuman, ToolDeliver, ToolFinish, ToolProgress}

// Tools that a session may offer to codex. They are dynamic tools, which every supported
// codex has: thread/start defines them, and the thread keeps them.
const (
	ToolAskHuman = "ask_human" // asks a person, as a Request
	ToolDeliver  = "deliver"
	ToolFinish   = "finish" // says how the task ended
	ToolProgress = "report_progress"
)

// A Finish is the agent's own word, by the tool finish, on how the task of a turn ended.
type Finish struct {
	Turn    int    `json:"turn,omitempty"`
	Outcome string `json:"outcome"` // FinishDone or FinishFailed
	Summary string `json:"summary"`
}

// Outcomes of a Finish. A completed turn that is declared failed is a failed turn.
const (
	FinishDone   = "done"
	FinishFailed = "failed"
)

// MaxFinish bounds the summary of a Finish, in bytes.
const MaxFinish = 2 << 10
