package lab

import (
	"context"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/proxy"
	"google.golang.org/protobuf/proto"

	"fairlead.dev/fairlead/internal/payload"
)

// Decrypt decrypts every payload of an event or a history in place. It returns
// how many were encrypted.
func Decrypt(ctx context.Context, codec *payload.Codec, m proto.Message) (encrypted int, err error) {
	err = proxy.VisitPayloads(ctx, m, proxy.VisitPayloadsOptions{
		Visitor: func(_ *proxy.VisitPayloadsContext, in []*commonpb.Payload) ([]*commonpb.Payload, error) {
			for _, p := range in {
				if payload.Encrypted(p) {
					encrypted++
				}
			}
			return codec.Decode(in)
		},
		SkipSearchAttributes: true,
	})
	return encrypted, err
}
