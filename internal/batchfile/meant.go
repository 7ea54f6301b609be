package batchfile

import (
	"path"
	"strings"
)

const mostMeant = 3

// Meant returns the known names most similar to a word: those whose last part is the word,
// or else those with the fewest different letters.
func Meant(word string, known []string) (out []string) {
	word = strings.ToLower(word)
	least := 1
	if len(word) > 4 {
		least = 2
	}
	for _, name := range known {
		far := Distance(word, strings.ToLower(name))
		switch last := strings.ToLower(path.Base(name)); {
		case last == path.Base(word):
			far = 0
		case !strings.Contains(word, "/"):
			far = min(far, Distance(word, last))
		}
		if far < least {
			least, out = far, nil
		}
		if far == least {
			out = append(out, name)
		}
	}
	return out[:min(len(out), mostMeant)]
}
