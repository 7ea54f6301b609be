package inventory

import (
	"bytes"
	"path"
	"regexp"
	"strings"
)

var (
	sshWord = regexp.MustCompile(`(?i)^(host|match|include)(?:\s*=\s*|\s+)`)
	section = regexp.MustCompile(`^\[[^:\]\s]+(:\w+)?\]`)
)

// Detect judges a file's format by its name and content.
func Detect(name string, data []byte) Format {
	if isList(data) {
		return AnsibleJSON
	}
	base := path.Base(strings.ReplaceAll(name, `\`, "/"))
	switch ext := strings.ToLower(path.Ext(base)); {
	case ext == ".yaml", ext == ".yml", ext == ".json":
		return whichYAML(data)
	case ext == ".ini":
		return AnsibleINI
	case base == "ssh_config", base == "config" && strings.Contains(name, ".ssh"):
		return SSHConfig
	}
	for line := range bytes.Lines(data) {
		text := strings.TrimSpace(string(line))
		switch {
		case text == "", text[0] == '#', text[0] == ';':
			continue
		case sshWord.MatchString(text) && !strings.Contains(text, "ansible_"):
			return SSHConfig
		case section.MatchString(text):
			return AnsibleINI
		case text == "---", strings.HasPrefix(text, "{"):
			return whichYAML(data)
		}
		if word := strings.TrimRight(strings.Fields(text)[0], ":"); strings.HasSuffix(strings.Fields(text)[0], ":") && word != "" {
			return whichYAML(data)
		}
		if sshBlock.Match(data) {
			return SSHConfig // an OpenSSH config may begin with settings for all hosts
		}
		return AnsibleINI
	}
	return YAML
}

var sshBlock = regexp.MustCompile(`(?mi)^\s*(host|match)(\s*=\s*|\s+)\S`)

// whichYAML tells our YAML, with hosts at the top level, from Ansible's, with hosts in
// groups.
func whichYAML(data []byte) Format {
	if len(data) > MaxFile {
		return YAML
	}
	root, err := fromYAML(data)
	if err != nil {
		return YAML
	}
	for i, k := range root.keys {
		if k.name != "hosts" || len(root.keys) > 1 {
			for _, of := range root.values[i].keys {
				if of.name == "hosts" || of.name == "children" || of.name == "vars" {
					return AnsibleYAML
				}
			}
		}
	}
	if _, all := root.get("all"); all {
		return AnsibleYAML
	}
	return YAML
}
