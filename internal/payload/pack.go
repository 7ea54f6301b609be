package payload

import (
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"
)

// Temporal takes 2 MiB of a payload, and a pool of a thousand hosts is more
// than that as JSON. What is long is packed, before it is encrypted.
const (
	packed   = "binary/zstd"
	packFrom = 128 << 10
	// maxUnpacked bounds what a payload can unpack to.
	maxUnpacked = 64 << 20
)

var packer = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic(err) // these options are right
	}
	return e
})

var unpacker = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxUnpacked), zstd.WithDecoderConcurrency(0))
	if err != nil {
		panic(err) // these options are right
	}
	return d
})

// pack makes a long payload shorter, where that can be.
func pack(p *commonpb.Payload) (*commonpb.Payload, error) {
	if n := len(p.GetData()); n < packFrom || n > maxUnpacked/2 {
		return p, nil
	}
	raw, err := proto.Marshal(p)
	if err != nil {
		return nil, err
	}
	data := packer().EncodeAll(raw, nil)
	if len(data) > len(raw)/10*9 {
		return p, nil
	}
	return &commonpb.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte(packed)}, Data: data}, nil
}

// unpack undoes pack; any other payload is as it was.
func unpack(p *commonpb.Payload) (*commonpb.Payload, error) {
	if string(p.GetMetadata()[converter.MetadataEncoding]) != packed {
		return p, nil
	}
	raw, err := unpacker().DecodeAll(p.GetData(), nil)
	if err != nil {
		return nil, &Error{Err: errors.Join(ErrTorn, fmt.Errorf("unpack it: %w", err))}
	}
	plain := &commonpb.Payload{}
	if err := proto.Unmarshal(raw, plain); err != nil {
		return nil, &Error{Err: errors.Join(ErrTorn, err)}
	}
	return plain, nil
}
