package payload

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"
)

// Metadata as in Temporal's samples, so that tools recognize encrypted payloads. The place
// is our own.
const (
	encoding      = "binary/encrypted"
	metadataKeyID = "encryption-key-id"
	metadataPlace = "fairlead-for"
)

// formTwo ends the key id of a payload that is bound to a place. Programs that know only
// the first form do not have a key of this id, so their workflows wait for a newer worker.
const formTwo = "/2"

// A Codec compresses long payloads and, if it has keys, encrypts all.
type Codec struct {
	namespace string
	seals     *atomic.Pointer[[]sealer] // the first encrypts; Renew changes them for all copies of the codec
	since     time.Time
	workers   *workers  // nil without a key of workers
	starts    *sync.Map // run id → Origin of its input, from its decoding until it begins
	proofs    *proofs
}

var _ converter.PayloadCodec = (*Codec)(nil)

type sealer struct {
	id     string
	cipher *xaes
}

// NewCodec returns the codec of a namespace. The first key encrypts, and all decrypt. With
// keys, it requires that payloads are encrypted for their place.
func NewCodec(namespace string, keys ...Key) *Codec {
	c := &Codec{namespace: namespace, seals: &atomic.Pointer[[]sealer]{}, starts: &sync.Map{}, proofs: &proofs{}}
	seals := sealersOf(keys)
	c.seals.Store(&seals)
	return c
}

func sealersOf(keys []Key) (seals []sealer) {
	for _, k := range keys {
		x, err := newXAES(k.secret[:])
		if err != nil {
			panic(err)
		}
		seals = append(seals, sealer{k.id, x})
	}
	return seals
}

// sealers are the keys of this moment.
func (c *Codec) sealers() []sealer { return *c.seals.Load() }

// Renew gives the codec, and all codecs that Since and ForWorkers made of it, the keys that a
// file has now. The first encrypts. Keys that are no longer in the file still decrypt, until
// the program ends. A codec without keys cannot get some, because what was written without
// them would be refused.
func (c *Codec) Renew(keys ...Key) error {
	former := c.sealers()
	switch {
	case len(former) == 0:
		return errors.New("change the payload keys: this program began without any, and must start again to use some")
	case len(keys) == 0:
		return fmt.Errorf("change the payload keys: %w", ErrKeyFile)
	}
	seals := sealersOf(keys)
	for _, s := range former {
		if !slices.ContainsFunc(seals, func(n sealer) bool { return n.id == s.id }) {
			seals = append(seals, s)
		}
	}
	c.seals.Store(&seals)
	return nil
}

// Since returns a codec that also reads older forms (plain, and bound to the namespace
// only) in workflows that began before t. With a zero t it does not.
func (c *Codec) Since(t time.Time) *Codec {
	other := *c
	other.since = t
	return &other
}

// ReadsOlder returns the time before which workflows may have older forms, or zero.
func (c *Codec) ReadsOlder() time.Time { return c.since }

// Encrypts reports whether payloads are encrypted, and with which key.
func (c *Codec) Encrypts() (keyID string, ok bool) {
	seals := c.sealers()
	if len(seals) == 0 {
		return "", false
	}
	return seals[0].id, true
}

// Encode implements converter.PayloadCodec. Payloads of no known place can be read only by
// Decode.
func (c *Codec) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	return c.encode(place{}, payloads)
}

func (c *Codec) encode(at place, payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	return c.encodeFor(at, "", payloads)
}

func (c *Codec) encodeFor(at place, purpose string, payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	seals := c.sealers()
	for i, p := range payloads {
		p, err := pack(p)
		if err == nil && len(seals) > 0 {
			if p, err = seals[0].encrypt(c.namespace, at.String(), p); err == nil {
				c.mark(at.String(), purpose, p)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("encrypt a payload for Temporal: %w", err)
		}
		out[i] = p
	}
	return out, nil
}

func (s *sealer) encrypt(namespace, at string, p *commonpb.Payload) (*commonpb.Payload, error) {
	buf := make([]byte, nonceSize, nonceSize+proto.Size(p)+tagSize)
	rand.Read(buf)
	buf, err := proto.MarshalOptions{}.MarshalAppend(buf, p)
	if err != nil {
		return nil, err
	}
	data, err := s.cipher.seal(buf, s.bound(namespace, at))
	if err != nil {
		return nil, err
	}
	return &commonpb.Payload{
		Metadata: map[string][]byte{
			converter.MetadataEncoding: []byte(encoding), metadataKeyID: []byte(s.id + formTwo), metadataPlace: []byte(at),
		},
		Data: data,
	}, nil
}

func (s *sealer) bound(namespace, at string) []byte {
	return []byte("fairlead payload 2\x00" + namespace + "\x00" + s.id + "\x00" + at)
}

func (s *sealer) boundToNamespace(namespace string) []byte {
	return []byte("fairlead payload 1\x00" + namespace + "\x00" + s.id)
}

// Decode implements converter.PayloadCodec. It reads every payload of the namespace,
// whatever its place and form, and plain ones. So it is for showing what Temporal keeps; a
// decision must not rest on it. Its error is an *Error.
func (c *Codec) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		plain, err := c.open(p, string(p.GetMetadata()[metadataPlace]))
		if err != nil {
			return nil, err
		}
		out[i] = plain
	}
	return out, nil
}

// decodeAt reads a payload at its place. The workflow or activity began at that time; zero
// if unknown.
func (c *Codec) decodeAt(at place, began time.Time, p *commonpb.Payload) (*commonpb.Payload, error) {
	form := formOf(p)
	if form != boundForm {
		if err := c.older(at, began, form); err != nil {
			return nil, err
		}
		if at.kind == ofActivity {
			if err := c.internal(at, "", began, p); err != nil {
				return nil, err
			}
		}
		return c.open(p, "")
	}
	bound := string(p.GetMetadata()[metadataPlace])
	plain, err := c.open(p, bound)
	if err == nil && !at.takes(bound) {
		return nil, &Error{Err: ErrMoved, at: at, met: "it was encrypted for " + shown(bound)}
	}
	if err == nil && at.kind == ofActivity {
		if err := c.internal(at, "", began, p); err != nil {
			return nil, err
		}
	}
	return plain, err
}

// Accepts returns an error if the payload is refused as a part of a workflow's input.
func (c *Codec) Accepts(workflowID string, began time.Time, p *commonpb.Payload) error {
	_, err := c.decodeAt(place{kind: ofWorkflow, workflow: workflowID}, began, p)
	return err
}

// older returns an error unless a payload of an older form is accepted at its place.
func (c *Codec) older(at place, began time.Time, form form) error {
	if len(c.sealers()) == 0 || !c.since.IsZero() && (began.IsZero() || began.Before(c.since)) {
		return nil
	}
	return &Error{Err: ErrOlder, at: at, met: form.String(), began: began, since: c.since}
}

// absent returns an error if a value must not be missing at its place. A missing value
// would be read as an empty one, and anybody can leave one out.
func (c *Codec) absent(at place, began time.Time) error { return c.older(at, began, absentForm) }

// A form is how a payload is kept.
type form int

const (
	plainForm form = iota
	namespaceForm
	boundForm
	absentForm
)

func (f form) String() string {
	switch f {
	case namespaceForm:
		return "it is encrypted for the namespace only"
	case absentForm:
		return "it is missing"
	}
	return "it is not encrypted"
}

func formOf(p *commonpb.Payload) form {
	switch {
	case !Encrypted(p):
		return plainForm
	case strings.HasSuffix(string(p.GetMetadata()[metadataKeyID]), formTwo):
		return boundForm
	}
	return namespaceForm
}

// Older reports whether a payload is plain, or encrypted as before payloads were bound to
// their place.
func Older(p *commonpb.Payload) bool { return formOf(p) != boundForm }

// Encrypted reports whether any program has encrypted a payload.
func Encrypted(p *commonpb.Payload) bool {
	return string(p.GetMetadata()[converter.MetadataEncoding]) == encoding
}

// open decrypts a payload of any form that is bound to the place at.
func (c *Codec) open(p *commonpb.Payload, at string) (*commonpb.Payload, error) {
	if Encrypted(p) {
		plain, err := c.decrypt(p, at)
		if err != nil {
			return nil, err
		}
		p = plain
	}
	return unpack(p)
}

func (c *Codec) decrypt(p *commonpb.Payload, at string) (*commonpb.Payload, error) {
	id, two := strings.CutSuffix(string(p.GetMetadata()[metadataKeyID]), formTwo)
	seals := c.sealers()
	for i := range seals {
		s := &seals[i]
		if s.id != id {
			continue
		}
		bound := s.boundToNamespace(c.namespace)
		if two {
			bound = s.bound(c.namespace, at)
		}
		data, err := s.cipher.open(p.GetData(), bound)
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
	for _, s := range seals {
		e.Have = append(e.Have, s.id)
	}
	return nil, e
}

// Rebind encrypts payloads of an older form for the input of a workflow, and reports
// whether there were any.
func (c *Codec) Rebind(workflowID string, payloads []*commonpb.Payload) (_ []*commonpb.Payload, changed bool, _ error) {
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		out[i] = p
		if !Older(p) {
			continue
		}
		plain, err := c.Decode([]*commonpb.Payload{p})
		if err != nil {
			return nil, false, err
		}
		// Anybody may have written it.
		bound, err := c.ForWorkers(Workers{}).encode(place{kind: ofWorkflow, workflow: workflowID}, plain)
		if err != nil {
			return nil, false, err
		}
		out[i], changed = bound[0], true
	}
	return out, changed, nil
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
