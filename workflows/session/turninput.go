package session

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

func checkExtras(m protocol.Message) error {
	if err := activities.CheckInputs(m.Inputs); err != nil {
		return err
	}
	switch {
	case len(m.Schema) == 0 && m.SchemaBlob == "":
		return nil
	case m.Mode == "steer":
		return fmt.Errorf("an output schema needs a turn of its own: a message that steers cannot have one")
	case len(m.Schema) > 0 && m.SchemaBlob != "":
		return fmt.Errorf("it has both output_schema and output_schema_blob")
	case m.SchemaBlob != "" && !isMessage(m.SchemaBlob):
		return fmt.Errorf("output_schema_blob is not a key that the worker's API returned for a schema: send the schema through the API (ctl does so)")
	case len(m.Schema) > protocol.MaxSchemaInline:
		return fmt.Errorf("its output schema has %d bytes; above %d it goes through the store (ctl does so)", len(m.Schema), protocol.MaxSchemaInline)
	case len(m.Schema) > 0:
		return activities.CheckSchema(m.Schema)
	}
	return nil
}

// extraChars returns how many characters the files add to the text.
func extraChars(m protocol.Message) int {
	n := 0
	for _, in := range m.Inputs {
		if in.Kind == protocol.InputFile {
			n += protocol.NoteChars + kit.MaxPath
		}
	}
	return n
}

// extraSum digests a message's files and output schema; empty if there are none.
func extraSum(m protocol.Message) string {
	if len(m.Inputs) == 0 && len(m.Schema) == 0 && m.SchemaBlob == "" {
		return ""
	}
	all := ""
	for _, in := range m.Inputs {
		all += fmt.Sprintf("%s %q %s\n", in.Kind, in.Name, in.Digest)
	}
	h := sha256.Sum256([]byte(all + contentOf(m.SchemaBlob) + "\n" + string(m.Schema)))
	return "\x00" + hex.EncodeToString(h[:])
}

// sentAgain returns the content of m, to be sent under another id.
func sentAgain(m protocol.Message) protocol.Message {
	return protocol.Message{Text: m.Text, Blob: m.Blob, Chars: m.Chars, Model: m.Model, Effort: m.Effort, AnyModel: m.AnyModel,
		Inputs: m.Inputs, Schema: m.Schema, SchemaBlob: m.SchemaBlob}
}

// outputShape is a turn's output schema, kept for a later turn on the same task.
type outputShape struct {
	Schema json.RawMessage `json:"schema,omitempty"`
	Blob   string          `json:"blob,omitempty"`
}

func shapeOf(m protocol.Message) *outputShape {
	if len(m.Schema) == 0 && m.SchemaBlob == "" {
		return nil
	}
	return &outputShape{m.Schema, m.SchemaBlob}
}

func (o *outputShape) of(m protocol.Message) protocol.Message {
	if o != nil {
		m.Schema, m.SchemaBlob = o.Schema, o.Blob
	}
	return m
}

func withExtras(m protocol.Message, s conversation.Send) conversation.Send {
	s.Inputs, s.Schema, s.SchemaBlob = m.Inputs, m.Schema, m.SchemaBlob
	return s
}

// keepFiles bounds the kept files of earlier messages.
const keepFiles = 50

// filesToBring returns the files of earlier messages if the session was granted a host
// since they were brought. Images are in the thread's history.
func (s *messagesPart) filesToBring() []protocol.Input {
	if s.st.FilesAt == 0 && len(s.st.Files) == 0 {
		s.st.Files = s.opt.Files
	}
	if s.st.FilesAt == s.st.Generation {
		return nil
	}
	return s.st.Files
}

// filesBrought is called when a pump has put the files on the host.
func (s *messagesPart) filesBrought(in pumps.RunPumpInput) {
	s.st.FilesAt = s.st.Generation
	for _, p := range in.Pump.Sends {
		for _, f := range p.Inputs {
			same := func(g protocol.Input) bool { return g.Name == f.Name && g.Digest == f.Digest }
			if f.Kind == protocol.InputFile && !slices.ContainsFunc(s.st.Files, same) {
				s.st.Files = append(s.st.Files, f)
			}
		}
	}
	if over := len(s.st.Files) - keepFiles; over > 0 {
		s.st.Files = slices.Clone(s.st.Files[over:])
	}
}

func (s *messagesPart) whereFiles() string {
	if len(s.st.Files) == 0 {
		return ""
	}
	return " Files that came with earlier messages are in " + pumps.InputsDir(*s.st.Layout) + " here, in folders of the same names."
}

func (o Options) checkThread() error {
	if err := activities.CheckPersonality(o.Personality); err != nil {
		return err
	}
	if len(o.Files) > keepFiles {
		return fmt.Errorf("%d files of earlier messages, at most %d", len(o.Files), keepFiles)
	}
	for _, f := range o.Files {
		if err := activities.CheckInputs([]protocol.Input{f}); err != nil {
			return err
		}
	}
	if err := o.checkGiven(); err != nil {
		return err
	}
	return kit.Short([]kit.Text{{What: "instructions", Is: o.Instructions, Max: protocol.MaxInstructions}})
}

// instructions returns the instructions for a pump that opens the thread. Later pumps get
// none, to save history.
func (s *processPart) instructions() string {
	if s.st.Pump.Opened == s.st.Incarnation {
		return ""
	}
	return s.opt.Instructions
}

// readTurnOutput parses the output from the final text. Only the text is kept.
func readTurnOutput(t *protocol.TurnView) {
	if !t.Structured || t.Status != "completed" {
		return
	}
	if t.FinalTruncated || t.FinalAt > len(t.FinalText) {
		t.OutputError = "the final message is cut here; the whole is in the transcript"
		return
	}
	ParseTurnOutput(t, t.FinalText[t.FinalAt:])
}

// ParseTurnOutput parses the turn's last message as its output.
func ParseTurnOutput(t *protocol.TurnView, text string) {
	out, err := activities.ParseOutput(text)
	t.Output, t.OutputError = out, ""
	if err != nil {
		t.OutputError = err.Error()
	}
}

// whyRefused says who refused a message, and why.
func whyRefused(what string, d protocol.Delivery) string {
	if why, ok := strings.CutPrefix(d.Error, pumps.NotSaid); ok {
		return what + " was not said to codex: " + why
	}
	return "codex refused " + what + ": " + d.Error
}
