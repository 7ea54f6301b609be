package activities

import "fairlead.dev/fairlead/conversation"

// What a transcript is to others, for those who hold no conversation.

// TranscriptMarkdown is a transcript for people to keep.
func TranscriptMarkdown(title string, entries []Entry) []byte {
	return conversation.Markdown(title, entries)
}

// TranscriptChat is a transcript as chat messages, a JSON object a line.
func TranscriptChat(entries []Entry) []byte { return conversation.ChatLines(entries) }

// Harmless is foreign text without what a terminal would act on.
func Harmless(s string) string { return conversation.Harmless(s) }
