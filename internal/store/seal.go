package store

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"
)

// An object is an age file. Inside it:
//
//	1 byte   format, 2
//	1 byte   compression of the content: 0 none, 1 zstd
//	2 bytes  length of the key, big endian
//	8 bytes  mark of the recipients, see readersOf (format 1 has none)
//	…        the key, so that a moved object is detected
//	…        the content
//
// `age -d -i identity object | tail -c +N`, and `zstd -d` for compressed content, recover
// anything without this program.
const (
	sealFormat = 2
	packPlain  = 0
	packZstd   = 1
)

// sample is how many bytes of a stream are compressed on trial.
const sample = 64 << 10

// These need a few MB of memory for a stream of any size.
var zstdOptions = []zstd.EOption{zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1 << 20)}

// EncodeAll is safe for concurrent use.
var smallZstd = func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstdOptions...)
	if err != nil {
		panic(err)
	}
	return e
}()

// A sealer encrypts one object into w.
type sealer struct {
	begin []byte // its compression is set later
	age   io.WriteCloser
	zstd  *zstd.Encoder
	head  []byte // content held back until the compression is decided
	open  bool   // the compression is decided and head is written
	plain bool
}

func newSealer(w io.Writer, key string, recipients []age.Recipient) (*sealer, error) {
	a, err := age.Encrypt(w, recipients...)
	if err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	return &sealer{begin: beginning{key: key, readers: readersOf(recipients)}.bytes(), age: a}, nil
}

// A beginning precedes the content of an object.
type beginning struct {
	pack    byte
	readers [8]byte // zero means unknown
	key     string
}

func (b beginning) bytes() []byte {
	out := []byte{sealFormat, b.pack}
	out = binary.BigEndian.AppendUint16(out, uint16(len(b.key)))
	out = append(out, b.readers[:]...)
	return append(out, b.key...)
}

func readBeginning(r io.Reader) (b beginning, err error) {
	var fixed [4]byte
	if _, err := io.ReadFull(r, fixed[:]); err != nil {
		return b, err
	}
	switch fixed[0] {
	case sealFormat:
		if _, err := io.ReadFull(r, b.readers[:]); err != nil {
			return b, err
		}
	case 1:
	default:
		return b, tooNew(fmt.Sprintf("format %d", fixed[0]))
	}
	name := make([]byte, binary.BigEndian.Uint16(fixed[2:]))
	if _, err := io.ReadFull(r, name); err != nil {
		return b, err
	}
	b.pack, b.key = fixed[1], string(name)
	return b, nil
}

// tooNew is for an object of a later version.
type tooNew string

func (t tooNew) Error() string { return string(t) + " is newer than this program knows (upgrade it)" }

func (s *sealer) Write(p []byte) (int, error) {
	if !s.open {
		if len(s.head)+len(p) < sample {
			s.head = append(s.head, p...)
			return len(p), nil
		}
		n := sample - len(s.head)
		s.head = append(s.head, p[:n]...)
		if err := s.decide(); err != nil {
			return 0, err
		}
		m, err := s.put(p[n:])
		return n + m, err
	}
	return s.put(p)
}

// decide chooses the compression and writes begin and head.
func (s *sealer) decide() error {
	pack := byte(packPlain)
	if !s.plain && worthPacking(s.head) {
		pack = packZstd
	}
	s.begin[1] = pack
	if _, err := s.age.Write(s.begin); err != nil {
		return err
	}
	if pack == packZstd {
		z, err := zstd.NewWriter(s.age, zstdOptions...)
		if err != nil {
			return err
		}
		s.zstd = z
	}
	s.open = true
	head := s.head
	s.head = nil
	_, err := s.put(head)
	return err
}

func worthPacking(p []byte) bool {
	if len(p) < 128 {
		return false
	}
	packed := smallZstd.EncodeAll(p, make([]byte, 0, len(p)))
	return len(packed) < len(p)-len(p)/10
}

func (s *sealer) put(p []byte) (int, error) {
	if s.zstd != nil {
		return s.zstd.Write(p)
	}
	return s.age.Write(p)
}

// Close ends the object.
func (s *sealer) Close() error {
	if !s.open {
		if err := s.decide(); err != nil {
			return err
		}
	}
	if s.zstd != nil {
		if err := s.zstd.Close(); err != nil {
			return err
		}
	}
	return s.age.Close()
}

// abandon releases resources without ending the object.
func (s *sealer) abandon() {
	if s.zstd != nil {
		s.zstd.Reset(nil)
	}
}

// An opener decrypts one object. Errors are ErrTorn, ErrWrongKey, or ErrUnreachable if
// reading failed.
type opener struct {
	src *source
	beginning
	packed  io.Reader // decrypted, still compressed
	content io.Reader
	zstd    *zstd.Decoder
}

// source remembers a read error, so that a broken connection is not taken for a torn
// object.
type source struct {
	r   io.ReadCloser
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

func newOpener(r io.ReadCloser, key string, identities []age.Identity) (_ *opener, err error) {
	o := &opener{src: &source{r: r}}
	defer func() {
		if err != nil {
			_ = o.Close()
		}
	}()
	if err := o.open(key, identities); err != nil {
		return nil, err
	}
	switch o.pack {
	case packPlain:
		o.content = o.packed
	case packZstd:
		z, err := zstd.NewReader(o.packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(8<<20))
		if err != nil {
			return nil, o.mean(err)
		}
		o.zstd, o.content = z, z
	default:
		return nil, tooNew(fmt.Sprintf("packing %d", o.pack))
	}
	return o, nil
}

func (o *opener) open(key string, identities []age.Identity) error {
	a, err := age.Decrypt(bufio.NewReaderSize(o.src, 64<<10), identities...)
	if err != nil {
		if noMatch := (*age.NoIdentityMatchError)(nil); errors.As(err, &noMatch) {
			return ErrWrongKey
		}
		return o.mean(err)
	}
	o.packed = a
	o.beginning, err = readBeginning(a)
	if later := tooNew(""); errors.As(err, &later) {
		return err
	}
	if err != nil {
		return o.mean(err)
	}
	if o.key != key {
		return fmt.Errorf("%w: it was written under the key %q", ErrTorn, clip(o.key))
	}
	return nil
}

func (o *opener) Read(p []byte) (int, error) {
	n, err := o.content.Read(p)
	if err != nil && err != io.EOF {
		err = o.mean(err)
	}
	return n, err
}

func (o *opener) mean(err error) error {
	if o.src.err != nil {
		return unreachable(o.src.err)
	}
	return fmt.Errorf("%w: %w", ErrTorn, noEOF(err))
}

// noEOF replaces io.EOF, which would mean a good end.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (o *opener) Close() error {
	if o.zstd != nil {
		o.zstd.Close()
	}
	return o.src.r.Close()
}
