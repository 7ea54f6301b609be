package snapshots

import (
	"bytes"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// keptSettings are the settings of .git/config that are kept. Others may name a program or
// hold a credential (http.extraheader, url.*.insteadof).
var keptSettings = regexp.MustCompile(`^(` +
	`remote\..+\.(url|pushurl|fetch|push|tagopt|prune|prunetags|skipdefaultupdate|skipfetchall)` +
	`|branch\..+\.(remote|merge|rebase|pushremote|description)` +
	`|user\.(name|email)|pull\.(rebase|ff)|push\.(default|autosetupremote|followtags)|fetch\.prune|rebase\.(autosquash|autostash|updaterefs)` +
	`|merge\.(conflictstyle|ff|renames)|commit\.(cleanup|verbose)|init\.defaultbranch|rerere\.enabled|tag\.sort` +
	`|core\.(autocrlf|eol|safecrlf|filemode|symlinks|ignorecase|precomposeunicode|sparsecheckout|sparsecheckoutcone|abbrev|commentchar|whitespace|quotepath)` +
	`)$`)

const maxDropped = 50

// gitConfig makes a config file of NUL-terminated output of git config, and returns the
// names of dropped settings. Effective values replace those of the repository, because
// another host has other global settings.
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
			continue // a new repository gets its own value
		case !keptSettings.MatchString(s.key) && sub == "":
			drop(s.key)
			continue
		case !keptSettings.MatchString(s.key):
			drop(section + ".*." + name) // sub may be a URL
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

func (s setting) parts() (section, sub, name string) {
	section, name, _ = strings.Cut(s.key, ".")
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		sub, name = name[:i], name[i+1:]
	}
	return section, sub, name
}

// settings parses the output of git config -z. A key without a value means true.
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

type gitURL struct {
	text    string
	cleaned bool
	remote  bool // another host may reach the URL
}

// scpLike matches user@host:path, with no slash before the colon.
var scpLike = regexp.MustCompile(`^([^/:@]+@)?(\[[^\]]+\]|[^/:@\[]+):[^:]`)

// cleanURL removes what may be a credential. The user of an http URL may be a token; that
// of an ssh URL is kept.
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

// thisMachine reports whether host is a name that every machine has for itself.
func thisMachine(host string) bool {
	switch strings.ToLower(host) {
	case "localhost", "localhost.localdomain", "127.0.0.1", "::1", "0.0.0.0":
		return true
	}
	return false
}
