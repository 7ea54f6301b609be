package records

import (
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
)

// Forms of a transcript, for callers that do not use package conversation.

// TranscriptMarkdown returns a transcript for people to keep.
func TranscriptMarkdown(title string, entries []protocol.Entry) []byte {
	return conversation.Markdown(title, entries)
}

// TranscriptChat returns a transcript as chat messages, one JSON object per line.
func TranscriptChat(entries []protocol.Entry) []byte { return conversation.ChatLines(entries) }

// Harmless returns a text without the parts that a terminal would interpret.
func Harmless(s string) string { return conversation.Harmless(s) }
