package records

import (
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
)

// TranscriptMarkdown returns a transcript for people.
func TranscriptMarkdown(title string, entries []protocol.Entry) []byte {
	return conversation.Markdown(title, entries)
}

// TranscriptChat returns chat messages, one JSON object per line. agents asks for those of
// sub-agents, too.
func TranscriptChat(entries []protocol.Entry, agents bool) []byte {
	if agents {
		return conversation.ChatLinesWithAgents(entries)
	}
	return conversation.ChatLines(entries)
}

// A TreeEntry is an entry with its place in the tree of sub-agents.
type TreeEntry = conversation.TreeEntry

// TranscriptTree returns entries with those of each sub-agent together.
func TranscriptTree(entries []protocol.Entry) []TreeEntry { return conversation.Tree(entries) }
