package activities

import (
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
)

// InputName turns a file's name into one that any host takes.
func InputName(name string) string { return conversation.InputName(name) }

// ImageType recognizes an image that codex can show to a model by its first bytes.
func ImageType(head []byte) string { return conversation.ImageType(head) }

// CheckInputs refuses what the worker's API would not have given.
func CheckInputs(inputs []protocol.Input) error { return conversation.CheckInputs(inputs) }

// CheckSchema says why this is no output schema that codex could take.
func CheckSchema(schema []byte) error { return conversation.CheckSchema(schema) }

// CheckPersonality refuses a name that no codex knows.
func CheckPersonality(name string) error { return conversation.CheckPersonality(name) }

// ParseOutput reads the JSON that a turn with an output schema ended with.
func ParseOutput(text string) ([]byte, error) { return conversation.ParseOutput(text) }
