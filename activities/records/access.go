package records

import (
	"regexp"
	"strings"
)

// AccessPrefix begins the keys of the access files that were in force. Nothing deletes them.
const AccessPrefix = "access/"

var accessDigest = regexp.MustCompile(`^[0-9a-f]{64}$`)

// AccessKey is the key of an access file with this digest: the SHA-256 of its content, in hex.
func AccessKey(digest string) string { return AccessPrefix + digest }

// AccessDigest is the inverse of AccessKey. It returns false for other keys.
func AccessDigest(key string) (string, bool) {
	digest, ok := strings.CutPrefix(key, AccessPrefix)
	return digest, ok && accessDigest.MatchString(digest)
}
