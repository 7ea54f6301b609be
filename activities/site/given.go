package site

import (
	"context"
	"errors"
	"fmt"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

// ReadGiven returns a text that was given to a session; for nil it is "". what names the
// text in errors. The starter
// names the blob, so it reads only texts of messages.
func ReadGiven(ctx context.Context, s *Site, g *protocol.GivenText, what string) (string, error) {
	isText := func(key string) bool { return owned.Is(key, owned.Messages) }
	if g == nil {
		return "", nil
	}
	if err := g.Check(what, isText); err != nil {
		return "", kit.BadInput("%w", err)
	}
	text := g.Text
	if g.Blob != "" {
		data, err := s.Store.Get(ctx, g.Blob)
		switch {
		case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrTorn), errors.Is(err, store.ErrTooLarge):
			return "", &kit.TypedError{Kind: protocol.ErrTypeBadInput, Hint: "start the session anew", Err: fmt.Errorf("%s: the text is missing from the store, or damaged there", what)}
		case err != nil:
			return "", fmt.Errorf("read %s: %w", what, err)
		}
		text = string(data)
	}
	if err := g.Is(text, what); err != nil {
		return "", kit.BadInput("%w", err)
	}
	return text, nil
}
