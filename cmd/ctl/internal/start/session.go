package start

import (
	"context"
	"io"
	"strings"
	"unicode/utf8"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// Session starts a session without a message; there says that the same request already did.
func Session(ctx context.Context, t *conn.Conn, id string, opt session.Options, k *conn.Keyed) (there bool, err error) {
	return t.StartSession(ctx, id, session.NewInput(id, opt, nil), k)
}

// Prompt returns the argument, or standard input for "-".
func Prompt(a *core.App, arg string) (string, error) {
	text := arg
	if arg == "-" {
		data, err := io.ReadAll(io.LimitReader(a.In, 4*protocol.MaxChars+1))
		if err != nil {
			return "", core.Failed("read the prompt from standard input: %v", err)
		}
		text = string(data)
	}
	n := utf8.RuneCountInString(text)
	switch {
	case n > protocol.MaxChars:
		return "", core.Usage("the prompt has more than the %d characters that codex takes", protocol.MaxChars).
			Hinted("put it into a file on the host and name the file")
	case strings.TrimSpace(text) == "":
		return "", core.Usage("the prompt is empty").Hinted("say what codex is to do")
	case !utf8.ValidString(text):
		return "", core.Usage("the prompt is not UTF-8 text")
	}
	return text, nil
}

// OfSession names a new folder for a session's data.
func OfSession(id string) string {
	return owned.Owner{Kind: owned.Session, ID: id}.NewFolder()
}

// Message returns a message. It uploads a long text under folder.
func Message(ctx context.Context, a *core.App, t *conn.Conn, folder, text, id string) (protocol.Message, error) {
	if id == "" {
		id = "m-" + core.RandomID()
	}
	m := protocol.Message{ID: id, By: core.Person()}
	if len(text) <= protocol.MaxText {
		m.Text = text
		return m, nil
	}
	worker, err := conn.AnyWorker(ctx, a, t)
	if err != nil {
		return m, err
	}
	stored, err := worker.PutMessage(ctx, folder, text)
	if err != nil {
		return m, conn.APIFailure("keep the prompt", err)
	}
	m.Blob, m.Chars = stored.Blob, stored.Chars
	return m, nil
}
