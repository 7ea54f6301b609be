package access_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/access"
)

func TestTheGroupsOfACertificateAreReadAsTheyWereWritten(t *testing.T) {
	most := make([]string, access.MaxCertificateGroups)
	for i := range most {
		most[i] = fmt.Sprintf("%03d", i) + strings.Repeat("é", (access.MaxGroupBytes-3)/2)
	}
	for _, groups := range [][]string{nil, {"ops"}, {"Domain Users", "<a>&b", "\u2028", `"`}, most} {
		cert := &ssh.Certificate{}
		if err := access.SetGroups(cert, groups); err != nil {
			t.Errorf("%.3q: %v", groups, err)
		}
		if got, err := access.CertificateGroups(cert); err != nil || !slices.Equal(got, groups) {
			t.Errorf("%.3q became %.3q, %v", groups, got, err)
		}
	}
}

func TestGroupsBeyondTheBoundsAreRefused(t *testing.T) {
	for name, groups := range map[string][]string{
		"too many": make([]string, access.MaxCertificateGroups+1), "too long": {strings.Repeat("g", access.MaxGroupBytes+1)},
		"no name": {""}, "not UTF-8": {"\xff"}, "a control character": {"a\nb"},
	} {
		if name == "too many" {
			for i := range groups {
				groups[i] = fmt.Sprint(i)
			}
		}
		cert := &ssh.Certificate{}
		if err := access.SetGroups(cert, groups); err == nil || len(cert.Extensions) > 0 {
			t.Errorf("%s was written: %v", name, err)
		}
	}
	for name, text := range map[string]string{
		"no list": `{"ops":true}`, "numbers": `[1]`, "two values": `["a"]["b"]`, "an empty name": `[""]`, "not UTF-8": "[\"\xff\"]",
		"nothing": "", "too long": `["` + strings.Repeat(" ", 1<<20) + `"]`, "101": `["` + strings.Repeat(`a","`, 100) + `a"]`,
	} {
		if got, err := access.CertificateGroups(&ssh.Certificate{Permissions: ssh.Permissions{Extensions: map[string]string{access.GroupsExtension: text}}}); err == nil {
			t.Errorf("%s was read as %.3q", name, got)
		}
	}
}

func FuzzCertificateGroups(f *testing.F) {
	f.Add(`["ops","Domain Users"]`)
	f.Add("[\"\xff\", \"\\ud800\"]")
	f.Add(`["a"]["b"]`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, text string) {
		cert := &ssh.Certificate{Permissions: ssh.Permissions{Extensions: map[string]string{access.GroupsExtension: text}}}
		groups, err := access.CertificateGroups(cert)
		if err != nil {
			if groups != nil {
				t.Errorf("an error with %q", groups)
			}
			return
		}
		again := &ssh.Certificate{}
		if err := access.SetGroups(again, groups); err != nil {
			t.Errorf("%q was read as %q: %v", text, groups, err)
		}
		if got, err := access.CertificateGroups(again); err != nil || !slices.Equal(got, groups) {
			t.Errorf("%q became %q, %v", groups, got, err)
		}
	})
}
