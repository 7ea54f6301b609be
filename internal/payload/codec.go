package payload

import (
	"crypto/rand"
	"errors"
	"fmt"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"
)

// Metadata as in Temporal's samples, so that tools recognize encrypted payloads.
const (
	encoding      = "binary/encrypted"
	metadataKeyID = "encryption-key-id"
)

// A Codec compresses long payloads and, if it has keys, encrypts all.
type Codec struct {
	seals []sealer // the first encrypts
}

var _ converter.PayloadCodec = (*Codec)(nil)

type sealer struct {
	id     string
	cipher *xaes
	bound  []byte
}

// NewCodec returns the codec of a namespace. The first key encrypts, and all decrypt.
func NewCodec(namespace string, keys ...Key) *Codec {
	c := &Codec{}
	for _, k := range keys {
		x, err := newXAES(k.secret[:])
		if err != nil {
			panic(err)
		}
		c.seals = append(c.seals, sealer{k.id, x, []byte("fairlead payload 1\x00" + namespace + "\x00" + k.id)})
	}
	return c
}

// Encrypts reports whether payloads are encrypted, and with which key.
func (c *Codec) Encrypts() (keyID string, ok bool) {
	if len(c.seals) == 0 {
		return "", false
	}
	return c.seals[0].id, true
}

// Encode implements converter.PayloadCodec.
func (c *Codec) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		p, err := pack(p)
		if err == nil && len(c.seals) > 0 {
			p, err = c.seals[0].encrypt(p)
		}
		if err != nil {
			return nil, fmt.Errorf("encrypt a payload for Temporal: %w", err)
		}
		out[i] = p
	}
	return out, nil
}

func (s *sealer) encrypt(p *commonpb.Payload) (*commonpb.Payload, error) {
	buf := make([]byte, nonceSize, nonceSize+proto.Size(p)+tagSize)
	rand.Read(buf)
	buf, err := proto.MarshalOptions{}.MarshalAppend(buf, p)
	if err != nil {
		return nil, err
	}
	data, err := s.cipher.seal(buf, s.bound)
	if err != nil {
		return nil, err
	}
	return &commonpb.Payload{
		Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encoding), metadataKeyID: []byte(s.id)},
		Data:     data,
	}, nil
}

// Decode implements converter.PayloadCodec. Its error is an *Error.
func (c *Codec) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		if Encrypted(p) {
			plain, err := c.decrypt(p)
			if err != nil {
				return nil, err
			}
			p = plain
		}
		plain, err := unpack(p)
		if err != nil {
			return nil, err
		}
		out[i] = plain
	}
	return out, nil
}

// Encrypted reports whether any program has encrypted a payload.
func Encrypted(p *commonpb.Payload) bool {
	return string(p.GetMetadata()[converter.MetadataEncoding]) == encoding
}

func (c *Codec) decrypt(p *commonpb.Payload) (*commonpb.Payload, error) {
	id := string(p.GetMetadata()[metadataKeyID])
	for i := range c.seals {
		s := &c.seals[i]
		if s.id != id {
			continue
		}
		data, err := s.cipher.open(p.GetData(), s.bound)
		if err != nil {
			return nil, &Error{KeyID: id, Err: err}
		}
		plain := &commonpb.Payload{}
		if err := proto.Unmarshal(data, plain); err != nil {
			return nil, &Error{KeyID: id, Err: errors.Join(ErrTorn, err)}
		}
		return plain, nil
	}
	e := &Error{KeyID: known(id), Err: ErrNoKey}
	for _, s := range c.seals {
		e.Have = append(e.Have, s.id)
	}
	return nil, e
}

// known returns "" for an id that does not have the form of ours, so that errors do not
// quote it.
func known(id string) string {
	if len(id) != 16 {
		return ""
	}
	for _, r := range id {
		if (r < '0' || r > '9') && (r < 'a' || r > 'f') {
			return ""
		}
	}
	return id
}
