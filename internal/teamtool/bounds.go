package teamtool

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
)

// MaxArgs bounds the arguments of a call, in bytes.
const MaxArgs = 8 << 10

// Bounds of a schema. Without references, each of its parts is applied at most once to each
// value of the arguments. So the number of both bounds the work of a check.
const (
	maxNested    = 20     // subschemas in each other
	maxParts     = 500    // subschemas, and values of enum
	maxPattern   = 1000   // bytes
	maxPatterns  = 10_000 // instructions of all compiled patterns
	maxSteps     = 200_000
	maxExponent  = 400 // of a number
	uniqueParts  = 32  // that uniqueItems, which may compare all items with each other, counts as
	regexPattern = 1000
)

// A size is how large a schema is.
type size struct {
	parts    int
	patterns int // in instructions
}

// measure refuses a schema whose check might cost without bound.
func measure(doc any) (s size, err error) {
	if _, err := values(doc); err != nil {
		return s, err
	}
	return s, s.walk(doc, "", 0)
}

func (s *size) walk(v any, at string, depth int) error {
	if depth > 2*maxNested { // a schema in a keyword's list or map is two levels down
		return fmt.Errorf("it nests too deep: at most %d schemas in each other are taken", maxNested)
	}
	switch v := v.(type) {
	case map[string]any:
		return s.schema(v, at, depth+1)
	case []any:
		for i, e := range v {
			if err := s.walk(e, at+"/"+strconv.Itoa(i), depth+1); err != nil {
				return err
			}
		}
	case bool:
		return s.add(1)
	}
	return nil
}

func (s *size) schema(object map[string]any, at string, depth int) error {
	if err := s.add(1); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if err := s.keyword(key, object[key], at+"/"+key, depth); err != nil {
			return err
		}
	}
	return nil
}

func (s *size) keyword(key string, v any, at string, depth int) error {
	switch key {
	case "$ref", "$dynamicRef", "$recursiveRef":
		return fmt.Errorf("at %.200q: references are not taken, because a check that follows them may never end: write the definition out where it is used", at)
	case "$schema":
		if url, _ := v.(string); !strings.HasPrefix(url, "https://json-schema.org/") && !strings.HasPrefix(url, "http://json-schema.org/") {
			return fmt.Errorf("at %.200q: it is not a dialect of json-schema.org", at)
		}
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
		named, ok := v.(map[string]any)
		if !ok {
			return s.walk(v, at, depth)
		}
		for _, name := range slices.Sorted(maps.Keys(named)) {
			if key == "patternProperties" {
				if err := s.pattern(name, at); err != nil {
					return err
				}
			}
			if err := s.walk(named[name], at+"/"+name, depth+1); err != nil {
				return err
			}
		}
	case "const", "default", "examples": // values, not schemas
	case "enum":
		list, _ := v.([]any)
		return s.add(len(list))
	case "pattern":
		if text, ok := v.(string); ok {
			return s.pattern(text, at)
		}
	case "format":
		if v == "regex" {
			return s.instructions(regexPattern)
		}
	case "uniqueItems":
		if v == true {
			return s.add(uniqueParts)
		}
	default:
		return s.walk(v, at, depth)
	}
	return nil
}

func (s *size) add(parts int) error {
	if s.parts += parts; s.parts > maxParts {
		return fmt.Errorf("it is too large: at most %d subschemas and values of enum are taken (uniqueItems counts as %d)", maxParts, uniqueParts)
	}
	return nil
}

func (s *size) pattern(text, at string) error {
	if len(text) > maxPattern {
		return fmt.Errorf("at %.200q: the pattern has %d bytes, at most %d", at, len(text), maxPattern)
	}
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return fmt.Errorf("at %.200q: the pattern: %w", at, err)
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return fmt.Errorf("at %.200q: the pattern: %w", at, err)
	}
	return s.instructions(len(prog.Inst))
}

func (s *size) instructions(n int) error {
	if s.patterns += n; s.patterns > maxPatterns {
		return errors.New("its patterns are too large: repeat less in them, such as {1,100} in place of {1,1000}")
	}
	return nil
}

// values counts the values in a JSON document, names of properties included. It refuses
// numbers that take long to compute with.
func values(v any) (n int, err error) {
	n = 1
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			m, err := values(e)
			if err != nil {
				return n, err
			}
			n += m + 1
		}
	case []any:
		for _, e := range v {
			m, err := values(e)
			if err != nil {
				return n, err
			}
			n += m
		}
	case json.Number:
		if i := strings.IndexAny(string(v), "eE"); i >= 0 {
			if e, err := strconv.Atoi(string(v[i+1:])); err != nil || e > maxExponent || e < -maxExponent {
				return n, fmt.Errorf("the number %.40s has an exponent beyond %d", v, maxExponent)
			}
		}
	}
	return n, nil
}
