package store

import "filippo.io/age"

// GenerateIdentity makes a new age X25519 identity and writes it to path, mode
// 0600, synced. A file that is there is never overwritten (fs.ErrExist).
func GenerateIdentity(path string) (*age.X25519Identity, error) { panic("pending") }

// LoadIdentities reads an age identity file. One that others may read is refused.
func LoadIdentities(path string) ([]age.Identity, error) { panic("pending") }

// RecipientsOf returns the recipients that belong to identities.
func RecipientsOf(ids []age.Identity) ([]age.Recipient, error) { panic("pending") }

// ParseRecipients reads recipients as they are written in a config: "age1…".
func ParseRecipients(lines ...string) ([]age.Recipient, error) { panic("pending") }
