package start

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// checkOutputSchema finds mistakes that the provider would only find in a turn.
func checkOutputSchema(data []byte) error {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return err
	}
	const here = "schema.json"
	c := jsonschema.NewCompiler()
	c.UseLoader(nowhere{})
	c.UseRegexpEngine(anyPattern) // not Go's dialect
	if err := c.AddResource(here, doc); err != nil {
		return err
	}
	_, err = c.Compile(here)
	var meta *jsonschema.SchemaValidationError
	var invalid *jsonschema.ValidationError
	if errors.As(err, &meta) && errors.As(meta.Err, &invalid) {
		for len(invalid.Causes) > 0 {
			invalid = invalid.Causes[0]
		}
		return fmt.Errorf("it is not a JSON schema: at /%s: %s", strings.Join(invalid.InstanceLocation, "/"),
			invalid.ErrorKind.LocalizedString(message.NewPrinter(language.English)))
	}
	return err
}

// nowhere loads no schemas, like providers.
type nowhere struct{}

func (nowhere) Load(url string) (any, error) {
	return nil, fmt.Errorf("it refers to %s, and other documents are not loaded: put the definitions under $defs", url)
}

func anyPattern(pattern string) (jsonschema.Regexp, error) { return unmatched(pattern), nil }

// unmatched is never matched.
type unmatched string

func (unmatched) MatchString(string) bool { return true }
func (u unmatched) String() string        { return string(u) }
