package payload

import (
	"context"
	"errors"

	commonpb "go.temporal.io/api/common/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/proto"
)

// Use makes a client and its workers encrypt payloads. Call it also without keys: then
// others' encrypted payloads are refused with a clear error.
func (c *Codec) Use(opts *client.Options) {
	opts.DataConverter, opts.FailureConverter = c.DataConverter(), c.FailureConverter()
}

// DataConverter returns Temporal's default converter with the codec around it.
func (c *Codec) DataConverter() converter.DataConverter {
	return dataConverter{DataConverter: converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), c)}
}

// A dataConverter panics in a workflow if a key is missing: the workflow task fails and is
// retried until a worker has the key. After an error, the SDK would drop a signal, and fail
// a workflow whose input it cannot decode.
type dataConverter struct {
	converter.DataConverter
	inWorkflow bool
}

var _ converter.ContextAware = dataConverter{}

// WithWorkflowContext implements converter.ContextAware.
func (d dataConverter) WithWorkflowContext(converter.WorkflowContext) converter.DataConverter {
	return dataConverter{d.DataConverter, true}
}

// WithContext implements converter.ContextAware.
func (d dataConverter) WithContext(context.Context) converter.DataConverter { return d }

// FromPayload implements converter.DataConverter.
func (d dataConverter) FromPayload(p *commonpb.Payload, to any) error {
	return d.insist(d.DataConverter.FromPayload(p, to))
}

// FromPayloads implements converter.DataConverter.
func (d dataConverter) FromPayloads(p *commonpb.Payloads, to ...any) error {
	return d.insist(d.DataConverter.FromPayloads(p, to...))
}

func (d dataConverter) insist(err error) error {
	if d.inWorkflow && errors.Is(err, ErrNoKey) {
		panic(err)
	}
	return err
}

// FailureConverter encrypts the text of errors, which may quote content, if there is a key.
// Types of errors stay plain.
func (c *Codec) FailureConverter() converter.FailureConverter {
	_, encrypts := c.Encrypts()
	data := converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), c)
	return failureConverter{
		FailureConverter: temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{DataConverter: data, EncodeCommonAttributes: encrypts}),
		codec:            c,
	}
}

type failureConverter struct {
	converter.FailureConverter
	codec *Codec
}

// FailureToError implements converter.FailureConverter. It explains a text that cannot be
// decrypted; the SDK only says "Encoded failure".
func (f failureConverter) FailureToError(failure *failurepb.Failure) error {
	for at := failure; at != nil; at = at.GetCause() {
		if f.codec.unreadable(at) != nil {
			failure = proto.Clone(failure).(*failurepb.Failure)
			f.codec.explain(failure)
			break
		}
	}
	return f.FailureConverter.FailureToError(failure)
}

func (c *Codec) explain(failure *failurepb.Failure) {
	for at := failure; at != nil; at = at.GetCause() {
		if err := c.unreadable(at); err != nil {
			at.Message = err.Error()
		}
	}
}

// unreadable returns why a failure's text, without causes, cannot be decrypted.
func (c *Codec) unreadable(failure *failurepb.Failure) error {
	if failure.GetEncodedAttributes() == nil {
		return nil
	}
	_, err := c.Decode([]*commonpb.Payload{failure.GetEncodedAttributes()})
	return err
}

// Message returns the text of a failure that the SDK did not decode.
func (c *Codec) Message(failure *failurepb.Failure) string {
	if failure.GetEncodedAttributes() == nil {
		return failure.GetMessage()
	}
	if err := c.unreadable(failure); err != nil {
		return err.Error()
	}
	read := proto.Clone(failure).(*failurepb.Failure)
	converter.DecodeCommonFailureAttributes(c.DataConverter(), read)
	return read.GetMessage()
}
