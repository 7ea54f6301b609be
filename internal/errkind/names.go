package errkind

import "fairlead.dev/fairlead/internal/protocol"

// CheckName refuses a text that cannot be the name or id of a host, seed, pool, session or
// batch. kind, such as "host name", is for the message.
func CheckName(kind, name string) error {
	if protocol.NamePattern.MatchString(name) {
		return nil
	}
	if name == "" {
		return Usage("%s is empty", kind)
	}
	return Usage("%q is not a %s", name, kind).
		Hinted("1 to 63 of a-z, 0-9, dot, dash and underscore, beginning with a letter or digit")
}
