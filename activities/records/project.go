package records

import (
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
)

// TranscriptMarkdown returns a transcript for people.
func TranscriptMarkdown(title string, entries []protocol.Entry) []byte {
	return conversation.Markdown(title, entries)
}

// TranscriptChat returns chat messages, one JSON object per line.
func TranscriptChat(entries []protocol.Entry) []byte { return conversation.ChatLines(entries) }
