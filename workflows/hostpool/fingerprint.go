package hostpool

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"fairlead.dev/fairlead/internal/protocol"
)

// fingerprint returns that of a host's first pinned key, or "known_hosts:" and a path.
func fingerprint(spec protocol.HostSpec) string {
	if len(spec.HostKeys) == 0 {
		if spec.KnownHosts != "" {
			return "known_hosts:" + spec.KnownHosts
		}
		return ""
	}
	key := spec.HostKeys[0]
	if strings.HasPrefix(key, "SHA256:") {
		return key
	}
	fields := strings.Fields(key)
	if len(fields) < 2 {
		return ""
	}
	raw, err := base64.StdEncoding.DecodeString(fields[1])
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(raw)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}
