// Package option has what the server hands to the client of Google's storage.
package option

import "golang.org/x/oauth2"

type ClientOption any

func WithTokenSource(oauth2.TokenSource) ClientOption { return nil }
