package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// A FileVerdict is what a person, or the expiry of the question, said of a file that codex
// delivered in a session whose deliveries need a verdict. The content of a deliverable never
// changes, so SHA256 says what was judged.
type FileVerdict struct {
	Approval string    `json:"approval"` // id of the question
	Call     string    `json:"call"`     // of the Deliverable
	Turn     int       `json:"turn"`
	Name     string    `json:"name"`
	SHA256   string    `json:"sha256"`
	Outcome  Outcome   `json:"outcome"` // Accept, Revise, Decline
	Comments string    `json:"comments,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	By       string    `json:"by"`
	At       time.Time `json:"at"`
	// Expired says that nobody decided in time.
	Expired bool `json:"expired,omitempty"`
}

// MaxComments bounds the comments of a verdict, in bytes.
const MaxComments = 16 << 10

// CommentsAnswer is the id under which the Answers of a Decide with the outcome Revise have
// the comments.
const CommentsAnswer = "comments"

// Comments returns the comments in the answers of a Decide with the outcome Revise.
func Comments(answers map[string][]string) (string, error) {
	given := answers[CommentsAnswer]
	if len(answers) != 1 || len(given) != 1 {
		return "", fmt.Errorf("revise needs its comments, as one text in answers: {%q: \"…\"}", CommentsAnswer)
	}
	switch text := given[0]; {
	case strings.TrimSpace(text) == "":
		return "", errors.New("the comments are empty: say what is to be changed")
	case !utf8.ValidString(text):
		return "", errors.New("the comments are not UTF-8 text")
	case len(text) > MaxComments:
		return "", fmt.Errorf("the comments have %d bytes, at most %d", len(text), MaxComments)
	default:
		return text, nil
	}
}

// A DeliveredFile is the Args of a request of KindDeliverable: what the digest covers.
type DeliveredFile struct {
	Bytes       int64  `json:"bytes"`
	Description string `json:"description,omitempty"`
	Name        string `json:"name"`
	Path        string `json:"path"`
	SHA256      string `json:"sha256"`
}

// Delivered reads the Args of a request of KindDeliverable.
func Delivered(args string) (f DeliveredFile, err error) {
	if err = json.Unmarshal([]byte(args), &f); err != nil {
		return f, fmt.Errorf("read what was delivered: %w", err)
	}
	return f, nil
}

// String names the file by its content.
func (f DeliveredFile) String() string {
	return fmt.Sprintf("%s (%d bytes, SHA-256 %s)", f.Name, f.Bytes, f.SHA256)
}
