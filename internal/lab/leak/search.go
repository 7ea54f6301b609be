package leak

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// Marks are the texts that must not be found, by name; each is a piece of a
// secret. A secret that is split or streamed in pieces is found by its marks,
// because no mark is split.
type Marks map[string]string

// A Searcher finds marks in bytes. It is safe for concurrent use.
type Searcher struct {
	needles []needle
}

type needle struct {
	name, form string
	text       []byte
}

// NewSearcher returns a Searcher for each mark in every form.
func NewSearcher(marks Marks) *Searcher {
	s := &Searcher{}
	for name, mark := range marks {
		seen := map[string]bool{}
		for form, text := range formsOf(mark) {
			if !seen[text] {
				seen[text] = true
				s.needles = append(s.needles, needle{name, form, []byte(text)})
			}
		}
	}
	sort.Slice(s.needles, func(i, j int) bool { return s.needles[i].name+s.needles[i].form < s.needles[j].name+s.needles[j].form })
	return s
}

// formsOf returns the encodings of a mark.
func formsOf(mark string) map[string]string {
	quoted, err := json.Marshal(mark)
	if err != nil {
		panic(err) // cannot fail for a string
	}
	forms := map[string]string{
		"raw": mark, "json": string(quoted[1 : len(quoted)-1]), "url": url.QueryEscape(mark), "path": url.PathEscape(mark),
		"hex": hex.EncodeToString([]byte(mark)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(mark))),
		"percent": percent(mark),
	}
	for skip := range 3 {
		// The characters at both ends contain bits of the neighbours.
		text := make([]byte, skip, skip+len(mark))
		text = append(text, mark...)
		whole := text[:len(text)-len(text)%3]
		first := []int{0, 2, 3}[skip]
		forms[fmt.Sprint("base64+", skip)] = base64.StdEncoding.EncodeToString(whole)[first:]
		forms[fmt.Sprint("base64url+", skip)] = base64.RawURLEncoding.EncodeToString(whole)[first:]
	}
	return forms
}

func percent(s string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, "%%%02X", s[i])
	}
	return b.String()
}

// In returns what is found in data: the mark, its form and the surrounding
// bytes.
func (s *Searcher) In(data []byte) []string {
	var out []string
	for _, n := range s.needles {
		if i := bytes.Index(data, n.text); i >= 0 {
			around := data[max(0, i-60):min(len(data), i+len(n.text)+20)]
			out = append(out, fmt.Sprintf("%s (%s) in %q", n.name, n.form, around))
		}
	}
	return out
}

// Below searches every file below dirs, their names and their symlinks. A
// missing folder contains nothing.
func (s *Searcher) Below(dirs ...string) (found []string, files int, size int64, err error) {
	for _, dir := range dirs {
		err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if os.IsNotExist(err) {
				return nil // deleted meanwhile, or never there
			}
			if err != nil {
				return err
			}
			var data []byte
			switch {
			case d.Type().IsRegular():
				data, err = os.ReadFile(path)
				files++
			case d.Type()&fs.ModeSymlink != 0:
				var to string
				to, err = os.Readlink(path)
				data = []byte(to)
			}
			if os.IsNotExist(err) {
				return nil
			}
			if err != nil {
				return err
			}
			size += int64(len(data))
			for _, f := range append(s.In(data), s.In([]byte(d.Name()))...) {
				found = append(found, path+": "+f)
			}
			return nil
		})
		if err != nil {
			return found, files, size, err
		}
	}
	return found, files, size, nil
}
