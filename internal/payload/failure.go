package payload

import (
	commonpb "go.temporal.io/api/common/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/proto"
)

// FailureConverter encrypts the text of errors, which may quote content, if there is a key.
// Types of errors stay plain. An error without encrypted text is accepted: the server makes
// such errors itself.
func (c *Codec) FailureConverter() converter.FailureConverter {
	return newFailureConverter(dataConverter{codec: c})
}

type failureConverter struct {
	converter.FailureConverter
	data dataConverter
}

var _ converter.FailureConverterWithSerializationContext = failureConverter{}

func newFailureConverter(data dataConverter) failureConverter {
	data.at.failure = true
	_, encrypts := data.codec.Encrypts()
	return failureConverter{
		FailureConverter: temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{DataConverter: data, EncodeCommonAttributes: encrypts}),
		data:             data,
	}
}

// WithSerializationContext implements converter.FailureConverterWithSerializationContext.
func (f failureConverter) WithSerializationContext(ctx converter.SerializationContext) converter.FailureConverter {
	return newFailureConverter(dataConverter{codec: f.data.codec, at: placeOf(ctx), placed: true})
}

// FailureToError implements converter.FailureConverter. It explains a text that cannot be
// decrypted; the SDK only says "Encoded failure".
func (f failureConverter) FailureToError(failure *failurepb.Failure) error {
	for at := failure; at != nil; at = at.GetCause() {
		if f.unreadable(at) != nil {
			failure = proto.Clone(failure).(*failurepb.Failure)
			f.explain(failure)
			break
		}
	}
	return f.FailureConverter.FailureToError(failure)
}

func (f failureConverter) explain(failure *failurepb.Failure) {
	for at := failure; at != nil; at = at.GetCause() {
		if err := f.unreadable(at); err != nil {
			at.Message = err.Error()
		}
	}
}

// unreadable returns why a failure's text, without causes, cannot be decrypted.
func (f failureConverter) unreadable(failure *failurepb.Failure) error {
	if failure.GetEncodedAttributes() == nil {
		return nil
	}
	_, err := f.data.decode(failure.GetEncodedAttributes())
	return err
}

// Message returns the text of a failure that the SDK did not decode. It is for showing.
func (c *Codec) Message(failure *failurepb.Failure) string {
	if failure.GetEncodedAttributes() == nil {
		return failure.GetMessage()
	}
	if _, err := c.Decode([]*commonpb.Payload{failure.GetEncodedAttributes()}); err != nil {
		return err.Error()
	}
	read := proto.Clone(failure).(*failurepb.Failure)
	converter.DecodeCommonFailureAttributes(c.DataConverter(), read)
	return read.GetMessage()
}
