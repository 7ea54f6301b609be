package site

// A Question asks whether a principal may do something to a host or a seed.
type Question struct {
	Principal string
	Groups    []string
	Verb      string
	Host      string
	Labels    map[string]string // of the host; nil if they are not known
	Seed      string
	Unknown   bool // nothing is known of the object, so that no condition holds
}
