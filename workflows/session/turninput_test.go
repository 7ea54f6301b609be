package session

import (
	"encoding/json"
	"strings"
	"testing"

	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
)

// Keys of blobs, in the form in which the worker's API makes them.
var (
	aFolder   = "owned/session.s1.0123456789abcdef"
	aLongText = aFolder + "/messages/" + strings.Repeat("0", 64)
)

var aFile = protocol.Input{Kind: protocol.InputFile, Name: "a", Blob: aFolder + "/inputs/" + strings.Repeat("0", 64), Digest: strings.Repeat("a", 64), Bytes: 1}

func TestWhatGoesWithAMessageIsChecked(t *testing.T) {
	file := aFile
	stranger := file
	stranger.Blob = "seeds/team/1"
	for what, c := range map[string]struct {
		m    protocol.Message
		says string
	}{
		"a file":                {protocol.Message{Inputs: []protocol.Input{file}}, ""},
		"a schema":              {protocol.Message{Schema: json.RawMessage(`{}`)}, ""},
		"a long schema":         {protocol.Message{SchemaBlob: aLongText}, ""},
		"a blob of a seed":      {protocol.Message{Inputs: []protocol.Input{stranger}}, "its blob key was not issued by the worker's API"},
		"a list":                {protocol.Message{Schema: json.RawMessage(`[1]`)}, "not a JSON object"},
		"null":                  {protocol.Message{Schema: json.RawMessage(`null`)}, "not a JSON object"},
		"two schemas":           {protocol.Message{Schema: json.RawMessage(`{}`), SchemaBlob: aLongText}, "both"},
		"a schema that is long": {protocol.Message{Schema: json.RawMessage(`{"a":"` + strings.Repeat("x", protocol.MaxSchemaInline) + `"}`)}, "through the store"},
		"a schema elsewhere":    {protocol.Message{SchemaBlob: "seeds/team"}, "not a key that the worker's API returned"},
		"a schema in a steer":   {protocol.Message{Mode: "steer", Schema: json.RawMessage(`{}`)}, "a message that steers cannot have one"},
	} {
		err := checkExtras(c.m)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", what, err, c.says)
		}
	}
}

// A message that is sent again brings its long text again, under another key.
func TestTheSameTextInAnotherFolderIsTheSameMessage(t *testing.T) {
	elsewhere := strings.Replace(aLongText, "0123", "ffff", 1)
	first, again := protocol.Message{ID: "m", Blob: aLongText, SchemaBlob: aLongText}, protocol.Message{ID: "m", Blob: elsewhere, SchemaBlob: elsewhere}
	if sum(first) != sum(again) {
		t.Error("it is another message")
	}
	again.Blob = strings.Replace(elsewhere, "/messages/00", "/messages/11", 1)
	if sum(first) == sum(again) {
		t.Error("another text is the same message")
	}
}

func TestAMessageWithOtherFilesIsAnotherMessage(t *testing.T) {
	plain := protocol.Message{ID: "m", Text: "hello"}
	with := plain
	with.Inputs = []protocol.Input{{Kind: protocol.InputFile, Name: "a", Digest: "1"}}
	schema := plain
	schema.Schema = json.RawMessage(`{}`)
	sums := map[string]bool{sum(plain): true, sum(with): true, sum(schema): true}
	if len(sums) != 3 {
		t.Errorf("%d sums of three messages", len(sums))
	}
	again := sentAgain(with)
	if len(again.Inputs) != 1 || again.ID != "" {
		t.Errorf("said again as %+v", again)
	}
}

func TestTheOutputIsTheLastMessageOrSaysWhyNot(t *testing.T) {
	text := "Let me see.\n\n{\"a\": [1, 2]}"
	for what, c := range map[string]struct {
		turn         protocol.TurnView
		output, says string
	}{
		"json":        {protocol.TurnView{TurnOutput: protocol.TurnOutput{Structured: true, FinalAt: 13}, Status: "completed", FinalText: text}, `{"a":[1,2]}`, ""},
		"no json":     {protocol.TurnView{TurnOutput: protocol.TurnOutput{Structured: true}, Status: "completed", FinalText: text}, "", "is not JSON"},
		"cut":         {protocol.TurnView{TurnOutput: protocol.TurnOutput{Structured: true, FinalAt: 13}, Status: "completed", FinalText: text[:9], FinalTruncated: true}, "", "cut here"},
		"no schema":   {protocol.TurnView{Status: "completed", FinalText: `{}`}, "", ""},
		"interrupted": {protocol.TurnView{TurnOutput: protocol.TurnOutput{Structured: true}, Status: "interrupted", FinalText: `{}`}, "", ""},
	} {
		readTurnOutput(&c.turn)
		if string(c.turn.Output) != c.output || !strings.Contains(c.turn.OutputError, c.says) || (c.says == "") != (c.turn.OutputError == "") {
			t.Errorf("%s: output %s, error %q", what, c.turn.Output, c.turn.OutputError)
		}
	}
}

func TestInstructionsGoWithWhatOpensTheThreadOnly(t *testing.T) {
	s := assembled(&core{st: &State{processState: processState{Incarnation: 2}}})
	s.opt.Instructions = "be brief"
	if got := s.process.instructions(); got != "be brief" {
		t.Errorf("a process that is not opened gets %q", got)
	}
	s.st.Pump.Opened = 2
	if got := s.process.instructions(); got != "" {
		t.Errorf("one that is gets %q", got)
	}
}

func TestFilesOfEarlierMessagesComeAlongOnce(t *testing.T) {
	s := assembled(&core{st: &State{placeState: placeState{Generation: 1, Layout: &protocol.Layout{Dir: "/r/sessions/s"}}}})
	file := protocol.Input{Kind: protocol.InputFile, Name: "a", Digest: "1"}
	picture := protocol.Input{Kind: protocol.InputImage, Name: "b", Digest: "2"}
	var in pumps.RunPumpInput
	in.Pump.Sends = []conversation.Send{{Inputs: []protocol.Input{file, picture, file}}}
	s.messages.filesBrought(in)
	if got := s.messages.filesToBring(); got != nil || len(s.st.Files) != 1 {
		t.Errorf("on the same host %v are brought, %v are known", got, s.st.Files)
	}
	s.st.Generation = 2
	if got := s.messages.filesToBring(); len(got) != 1 || got[0] != file || !strings.Contains(s.messages.whereFiles(), "/r/sessions/s/inputs") {
		t.Errorf("to another host %v are brought, and codex is told %q", got, s.messages.whereFiles())
	}
	s.messages.filesBrought(pumps.RunPumpInput{})
	if got := s.messages.filesToBring(); got != nil {
		t.Errorf("once more %v", got)
	}
}

// If a sender insisted on a model, this also holds when the message is sent again.
func TestAMessageThatIsSaidAgainInsistsAsBefore(t *testing.T) {
	if m := sentAgain((protocol.Message{ID: "m1", Text: "x", Model: "huge", AnyModel: true})); !m.AnyModel || m.Model != "huge" || m.ID != "" {
		t.Errorf("said again as %+v", m)
	}
}
