package owned

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
)

// SessionToken matches the key of a git server's token that one session uses. Its groups are
// the session's id and the tag of who stored the token, which may be empty.
var SessionToken = regexp.MustCompile(`^tokens/([a-z0-9][a-z0-9._-]{0,62})/(?:([0-9a-f]{32})/)?[0-9a-f]{64}$`)

// Tag returns what names of blobs have of the principal who stored them.
func Tag(principal string) string {
	sum := sha256.Sum256([]byte("uploader\x00" + principal))
	return hex.EncodeToString(sum[:16])
}

// FolderOf returns the name under which a principal stores in a folder. It returns false if
// the folder is another principal's.
func FolderOf(folder, principal string) (string, bool) {
	m := folderPattern.FindStringSubmatch(folder)
	switch {
	case m == nil:
		return "", false
	case m[4] == "":
		return folder + "-" + Tag(principal), true
	}
	return folder, m[4] == Tag(principal)
}

// Uploader returns the tag of who stored a blob, or false for another key. The tag is empty
// if a worker stored the blob itself, or did not know for whom.
func Uploader(key string) (tag string, ok bool) {
	if m := blobPattern.FindStringSubmatch(key); m != nil {
		return m[5], true
	}
	if m := SessionToken.FindStringSubmatch(key); m != nil {
		return m[2], true
	}
	return "", false
}
