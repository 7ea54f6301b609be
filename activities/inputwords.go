package activities

import (
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
)

// InputName turns a file's name into one that is valid on any host.
func InputName(name string) string { return conversation.InputName(name) }

// ImageType recognizes an image that codex can show to a model, by its first bytes.
func ImageType(head []byte) string { return conversation.ImageType(head) }

// CheckInputs refuses inputs that the worker's API cannot have made.
func CheckInputs(inputs []protocol.Input) error { return conversation.CheckInputs(inputs) }

// CheckSchema says why codex would not take an output schema.
func CheckSchema(schema []byte) error { return conversation.CheckSchema(schema) }

// CheckPersonality refuses a name that is not a personality of any codex.
func CheckPersonality(name string) error { return conversation.CheckPersonality(name) }

// ParseOutput reads the JSON that a turn with an output schema ended with.
func ParseOutput(text string) ([]byte, error) { return conversation.ParseOutput(text) }
