package store

import (
	"fmt"
	"strings"
)

// metaKey makes a place a store. It is no blob: callers cannot read, write or list it.
const metaKey = "fairlead-store.json"

const maxKey = 512 // S3 accepts 1024 bytes, but a configured prefix needs room

// checkKey refuses keys that drivers treat differently: upper case (some file systems
// ignore case), escapes, "..", empty parts. An accepted key is both path and object name.
func checkKey(key string) error {
	if key == metaKey || len(key) > maxKey {
		return fmt.Errorf("%q: %w", clip(key), ErrBadKey)
	}
	for part := range strings.SplitSeq(key, "/") {
		if part == "" || len(part) > 200 || !plain(part) || !alnum(part[0]) {
			return fmt.Errorf("%q: %w (parts of a-z, 0-9, '.', '_' and '-' that begin with a letter or digit)",
				clip(key), ErrBadKey)
		}
	}
	return nil
}

// checkPrefix accepts a key or its beginning.
func checkPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	return checkKey(strings.TrimSuffix(prefix, "/"))
}

func plain(part string) bool {
	for i := range len(part) {
		if c := part[i]; !alnum(c) && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

func alnum(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }

func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}
