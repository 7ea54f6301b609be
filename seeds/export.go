package seeds

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"
)

const maxExport = 64 << 20

// Export encrypts a bundle for a person's key, as an age file of a tar.
func Export(b *Bundle, to age.Recipient) ([]byte, error) {
	var out bytes.Buffer
	w, err := age.Encrypt(&out, to)
	if err != nil {
		return nil, fmt.Errorf("export seed: %w", err)
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return nil, fmt.Errorf("export seed: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("export seed: %w", err)
	}
	return out.Bytes(), nil
}

// OpenExport reads and validates what Export wrote.
func OpenExport(r io.Reader, identities ...age.Identity) (*Bundle, error) {
	a, err := age.Decrypt(r, identities...)
	if err != nil {
		if noMatch := (*age.NoIdentityMatchError)(nil); errors.As(err, &noMatch) {
			return nil, errors.New("open an exported seed: it is encrypted for another key")
		}
		return nil, fmt.Errorf("open an exported seed: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(a, maxExport+1))
	if err != nil {
		return nil, fmt.Errorf("open an exported seed: it is torn: %w", err)
	}
	if len(data) > maxExport {
		return nil, fmt.Errorf("open an exported seed: it has more than %d bytes", maxExport)
	}
	return Unpack(data)
}
