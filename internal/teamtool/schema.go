package teamtool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"fairlead.dev/fairlead/internal/protocol"
)

const here = "schema.json"

func compile(schema json.RawMessage) (*jsonschema.Schema, size, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, size{}, err
	}
	n, err := measure(doc)
	if err != nil {
		return nil, n, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(nowhere{})
	if err := c.AddResource(here, doc); err != nil {
		return nil, n, err
	}
	s, err := c.Compile(here)
	var meta *jsonschema.SchemaValidationError
	var invalid *jsonschema.ValidationError
	if errors.As(err, &meta) && errors.As(meta.Err, &invalid) {
		return nil, n, errors.New("it is not a JSON schema: " + first(invalid))
	}
	return s, n, err
}

// nowhere loads no schemas.
type nowhere struct{}

func (nowhere) Load(url string) (any, error) {
	return nil, fmt.Errorf("it refers to %.200s, and other documents are not loaded", url)
}

// CheckArgs refuses arguments that do not match the tool's schema, or are too large. The
// error is for the model.
func CheckArgs(t protocol.TeamTool, args json.RawMessage) error {
	if len(args) > MaxArgs {
		return fmt.Errorf("they have %d bytes, at most %d are taken", len(args), MaxArgs)
	}
	s, size, err := compile(t.Schema)
	if err != nil {
		return fmt.Errorf("the tool's own schema cannot be used: %w", err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(args))
	if err != nil {
		return errors.New("the arguments are not JSON")
	}
	n, err := values(v)
	if err != nil {
		return err
	}
	if n*size.parts > maxSteps {
		return fmt.Errorf("they have %d values, and a schema as large as this takes at most %d", n, maxSteps/size.parts)
	}
	if err := s.Validate(v); err != nil {
		var invalid *jsonschema.ValidationError
		if errors.As(err, &invalid) {
			return errors.New(first(invalid))
		}
		return err
	}
	return nil
}

// first returns the first cause in words.
func first(e *jsonschema.ValidationError) string {
	for len(e.Causes) > 0 {
		e = e.Causes[0]
	}
	return cut(fmt.Sprintf("at /%s: %s", strings.Join(e.InstanceLocation, "/"), e.ErrorKind.LocalizedString(message.NewPrinter(language.English))), maxWhy)
}
