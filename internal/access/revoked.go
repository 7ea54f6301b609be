package access

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"fairlead.dev/fairlead/internal/strictyaml"
)

// ParseRevoked reads a file that has only the sections people and revoked of an access file. It
// is for workers that take commands of everybody: their policies may still name approvers. The
// file gives nobody a role. The error is a *[BrokenError].
func ParseRevoked(data []byte) (*Access, error) {
	broken := func(text string) error { return &BrokenError{[]strictyaml.Problem{{Text: text}}} }
	if len(data) > MaxFile {
		return nil, broken(fmt.Sprintf("%d bytes are too many: %d at most", len(data), MaxFile))
	}
	if err := strictyaml.Shallow(data, maxDepth, false); err != nil {
		return nil, broken(err.Error())
	}
	var only struct {
		People  []person `yaml:"people"`
		Revoked revoked  `yaml:"revoked"`
	}
	sum := sha256.Sum256(data)
	c := checker{File: strictyaml.Read(data, &only), f: file{People: only.People, Revoked: only.Revoked},
		a: &Access{Digest: hex.EncodeToString(sum[:]), people: map[string]person{}, groups: map[string][]string{}, revoked: only.Revoked}}
	c.readPeople()
	c.readRevoked()
	c.a.Warnings = nil // they are about authorities and roles, which this file has not
	if len(c.Problems) > 0 {
		strictyaml.Sort(c.Problems)
		return nil, &BrokenError{c.Problems}
	}
	return c.a, nil
}
