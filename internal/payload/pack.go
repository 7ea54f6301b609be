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

// Temporal allows 2 MiB for a payload; the JSON of a pool of a thousand hosts is longer.
const (
	packed      = "binary/zstd"
	packFrom    = 128 << 10
	maxUnpacked = 64 << 20
)

var packer = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic(err)
	}
	return e
})

var unpacker = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxUnpacked), zstd.WithDecoderConcurrency(0))
	if err != nil {
		panic(err)
	}
	return d
})

// pack compresses a long payload if that saves at least a tenth.
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
