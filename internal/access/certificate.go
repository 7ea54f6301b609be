package access

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode"
	"unicode/utf8"

	"golang.org/x/crypto/ssh"
)

// GroupsExtension is the extension of a certificate that has the groups of its principal: a
// JSON list of strings.
const GroupsExtension = "groups@fairlead.dev"

// Bounds on the groups of a certificate.
const (
	MaxCertificateGroups = 100
	MaxGroupBytes        = 256

	// maxGroupsText bounds the extension, in bytes. JSON writes a byte as six at most.
	maxGroupsText = MaxCertificateGroups * (6*MaxGroupBytes + len(`"",`))
)

// CheckName says why a name cannot be that of a person or a group.
func CheckName(name string) error { return checkName(name) }

// RevokedPerson reports whether a person's commands do not count any more.
func (a *Access) RevokedPerson(who string) bool { return a.revoked.person(who) }

// SetGroups writes groups into a certificate that is not signed yet.
func SetGroups(cert *ssh.Certificate, groups []string) error {
	if len(groups) == 0 {
		return nil
	}
	if err := checkGroups(groups); err != nil {
		return err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(groups); err != nil {
		return err
	}
	if cert.Extensions == nil {
		cert.Extensions = map[string]string{}
	}
	cert.Extensions[GroupsExtension] = string(bytes.TrimSpace(b.Bytes()))
	return nil
}

// CertificateGroups returns the groups of a certificate. The caller has verified that an
// authority of the access file signed it.
//
//workflowcheck:ignore // a pure function
func CertificateGroups(cert *ssh.Certificate) ([]string, error) {
	text, ok := cert.Extensions[GroupsExtension]
	if !ok {
		return nil, nil
	}
	if len(text) > maxGroupsText {
		return nil, fmt.Errorf("its extension %s has %d bytes, and %d at most are allowed", GroupsExtension, len(text), maxGroupsText)
	}
	if !utf8.ValidString(text) { // json would replace invalid bytes
		return nil, fmt.Errorf("its extension %s is not UTF-8", GroupsExtension)
	}
	var groups []string
	if err := json.Unmarshal([]byte(text), &groups); err != nil {
		return nil, fmt.Errorf("its extension %s is not a JSON list of strings", GroupsExtension)
	}
	if err := checkGroups(groups); err != nil {
		return nil, fmt.Errorf("its extension %s: %w", GroupsExtension, err)
	}
	return groups, nil
}

// CheckGroups says why groups cannot be those that a login names.
func CheckGroups(groups []string) error { return checkGroups(groups) }

func checkGroups(groups []string) error {
	if len(groups) > MaxCertificateGroups {
		return fmt.Errorf("%d groups are too many: %d at most", len(groups), MaxCertificateGroups)
	}
	for _, g := range groups {
		switch {
		case g == "":
			return fmt.Errorf("a group has no name")
		case len(g) > MaxGroupBytes:
			return fmt.Errorf("the name of group %.40q… has %d bytes, and %d at most are allowed", g, len(g), MaxGroupBytes)
		case !utf8.ValidString(g):
			return fmt.Errorf("the name of group %.100q is not UTF-8", g)
		}
		for _, r := range g {
			if unicode.IsControl(r) {
				return fmt.Errorf("the name of group %.100q has a control character", g)
			}
		}
	}
	return nil
}
