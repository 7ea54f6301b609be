package snapshots

import (
	"bytes"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// keptSettings are those of a repository's own configuration that are kept: how
// it stands to its remotes, who commits, how files are written. All else may
// name a program or hold a credential (http.extraheader, url.*.insteadof).
var keptSettings = regexp.MustCompile(`^(` +
	`remote\..+\.(url|pushurl|fetch|push|tagopt|prune|prunetags|skipdefaultupdate|skipfetchall)` +
	`|branch\..+\.(remote|merge|rebase|pushremote|description)` +
	`|user\.(name|email)|pull\.(rebase|ff)|push\.(default|autosetupremote|followtags)|fetch\.prune|rebase\.(autosquash|autostash|updaterefs)` +
	`|merge\.(conflictstyle|ff|renames)|commit\.(cleanup|verbose)|init\.defaultbranch|rerere\.enabled|tag\.sort` +
	`|core\.(autocrlf|eol|safecrlf|filemode|symlinks|ignorecase|precomposeunicode|sparsecheckout|sparsecheckoutcone|abbrev|commentchar|whitespace|quotepath)` +
	`)$`)

// maxDropped bounds the list of settings that were not kept.
const maxDropped = 50

// gitConfig makes a configuration of what git lists, NUL behind each, and names
// what it leaves out. What is effective counts more: another host's own
// settings are others.
func gitConfig(local, effective []byte) (config []byte, dropped []string) {
	var b bytes.Buffer
	drop := func(what string) {
		if !slices.Contains(dropped, what) && len(dropped) < maxDropped {
			dropped = append(dropped, what)
		}
	}
	counts := settings(effective)
	all := slices.DeleteFunc(settings(local), func(s setting) bool {
		return slices.ContainsFunc(counts, func(c setting) bool { return c.key == s.key })
	})
	for _, s := range append(all, counts...) {
		section, sub, name := s.parts()
		switch {
		case section == "extensions", s.key == "core.repositoryformatversion", s.key == "core.bare", s.key == "core.logallrefupdates":
			continue // those of a new repository will do
		case !keptSettings.MatchString(s.key) && sub == "":
			drop(s.key)
			continue
		case !keptSettings.MatchString(s.key):
			drop(section + ".*." + name) // what stands between may be a URL
			continue
		case section == "remote" && strings.HasSuffix(name, "url"):
			u := cleanURL(s.value)
			if u.cleaned {
				drop(s.key + " (the credential in it)")
			}
			s.value = u.text
		}
		if sub != "" {
			section += " " + quoteSetting(sub)
		}
		fmt.Fprintf(&b, "[%s]\n\t%s = %s\n", section, name, quoteSetting(s.value))
	}
	return b.Bytes(), dropped
}

type setting struct{ key, value string }

// parts are those of a key: section.sub.name, where sub may hold dots.
func (s setting) parts() (section, sub, name string) {
	section, name, _ = strings.Cut(s.key, ".")
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		sub, name = name[:i], name[i+1:]
	}
	return section, sub, name
}

// settings splits what git config -z lists. A key without a value means true.
func settings(list []byte) (all []setting) {
	for entry := range bytes.SplitSeq(list, []byte{0}) {
		key, value, ok := strings.Cut(string(entry), "\n")
		if key == "" || !strings.Contains(key, ".") {
			continue
		}
		if !ok {
			value = "true"
		}
		all = append(all, setting{key, value})
	}
	return all
}

var settingEscaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`)

func quoteSetting(s string) string { return `"` + settingEscaper.Replace(s) + `"` }

// A gitURL is one without what may be a credential.
type gitURL struct {
	text    string
	cleaned bool
	remote  bool // another host may reach it
}

// scpLike is user@host:path, where no slash comes before the colon.
var scpLike = regexp.MustCompile(`^([^/:@]+@)?(\[[^\]]+\]|[^/:@\[]+):[^:]`)

// cleanURL takes the user and password out of a URL: with http a user's name
// may be a token. That of ssh stays: it is none.
func cleanURL(raw string) gitURL {
	if !strings.Contains(raw, "://") {
		host := scpLike.FindStringSubmatch(raw)
		return gitURL{text: raw, remote: host != nil && !thisMachine(strings.Trim(host[2], "[]"))}
	}
	u, err := url.Parse(raw)
	if err != nil {
		scheme, _, _ := strings.Cut(raw, "://")
		return gitURL{text: scheme + "://unreadable", cleaned: true}
	}
	clean := *u
	secret := u.User != nil
	clean.User = nil
	switch u.Scheme {
	case "ssh", "git+ssh", "ssh+git", "git":
		if secret {
			clean.User = url.User(u.User.Username())
			_, secret = u.User.Password()
		}
	}
	clean.RawQuery, clean.Fragment, clean.RawFragment = "", "", ""
	out := gitURL{text: clean.String()}
	if out.cleaned = secret || u.RawQuery != "" || u.Fragment != ""; !out.cleaned {
		out.text = raw
	}
	switch u.Scheme {
	case "ssh", "git+ssh", "ssh+git", "git", "http", "https", "ftp", "ftps":
		out.remote = u.Hostname() != "" && !thisMachine(u.Hostname()) && u.RawQuery == ""
	}
	return out
}

// thisMachine knows the names by which a machine means itself: elsewhere they
// mean another one.
func thisMachine(host string) bool {
	switch strings.ToLower(host) {
	case "localhost", "localhost.localdomain", "127.0.0.1", "::1", "0.0.0.0":
		return true
	}
	return false
}
