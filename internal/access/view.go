package access

import (
	"maps"
	"slices"

	"golang.org/x/crypto/ssh"
)

// A View is the JSON of an access file.
type View struct {
	Digest   string        `json:"digest"`
	People   []PersonView  `json:"people"`
	Bindings []BindingView `json:"bindings"`
	Warnings []string      `json:"warnings"`
}

// A PersonView shows a person or the name of a certificate that a group has.
type PersonView struct {
	Name    string   `json:"name"`
	Keys    []string `json:"keys"` // fingerprints
	Groups  []string `json:"groups"`
	Roles   []Role   `json:"roles"` // whatever the conditions
	Revoked bool     `json:"revoked,omitempty"`
}

// A BindingView shows a binding.
type BindingView struct {
	Name  string   `json:"name"`
	Line  int      `json:"line"`
	Roles []Role   `json:"roles"`
	To    []string `json:"to"`
	When  string   `json:"when,omitempty"`
}

// View shows the file. People are sorted by name, and bindings are in the file's order.
func (a *Access) View() View {
	v := View{Digest: a.Digest, People: []PersonView{}, Bindings: []BindingView{}, Warnings: append([]string{}, a.Warnings...)}
	names := map[string]bool{}
	for name := range a.people {
		names[name] = true
	}
	for name := range a.groups {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		p := PersonView{Name: name, Keys: []string{}, Groups: append([]string{}, a.groups[name]...), Roles: append([]Role{}, a.Roles(name, nil)...), Revoked: a.revoked.person(name)}
		for _, line := range a.people[name].Keys {
			if pub, err := parseKey(line); err == nil {
				p.Keys = append(p.Keys, ssh.FingerprintSHA256(pub))
			}
		}
		v.People = append(v.People, p)
	}
	for _, b := range a.bindings {
		v.Bindings = append(v.Bindings, BindingView{Name: b.name, Line: b.line, Roles: b.roles, To: b.to, When: b.when})
	}
	return v
}
