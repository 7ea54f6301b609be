package chunks

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// A pack is an encrypted blob that consists of
//
//	"flpack1\n"
//	blocks   chunks one after another, about 1 MiB together, compressed or not
//	table    the blocks and chunks, compressed, so that a pack is readable without an index
//	4 bytes  length of the table
//	"flpack1\n"
const packMagic = "flpack1\n"

const (
	blockPlain = 0
	blockZstd  = 1
)

// maxPackChunks keeps positions in a pack below 1<<16.
const maxPackChunks = 60_000

type packTable struct {
	lists  bool // put by PutList
	blocks []packBlock
	chunks []packChunk
}

type packBlock struct {
	kind   byte
	stored int // bytes in the pack
	raw    int // bytes of its chunks
	chunks int
}

type packChunk struct {
	digest Digest
	size   int
}

func (t *packTable) raw() (n int64) {
	for _, b := range t.blocks {
		n += int64(b.raw)
	}
	return n
}

func (t *packTable) append(out []byte) []byte {
	kind := byte(0)
	if t.lists {
		kind = 1
	}
	out = append(out, kind)
	out = binary.AppendUvarint(out, uint64(len(t.blocks)))
	chunks := t.chunks
	for _, b := range t.blocks {
		out = append(out, b.kind)
		out = binary.AppendUvarint(out, uint64(b.stored))
		out = binary.AppendUvarint(out, uint64(b.chunks))
		for _, c := range chunks[:b.chunks] {
			out = append(out, c.digest[:]...)
			out = binary.AppendUvarint(out, uint64(c.size))
		}
		chunks = chunks[b.chunks:]
	}
	return out
}

var errTable = errors.New("the table of a pack cannot be read")

func readPackTable(p []byte) (t packTable, rest []byte, err error) {
	r := tableReader{p: p}
	kind := r.byte()
	t.lists = kind == 1
	blocks := r.number(maxPackChunks)
	if kind > 1 {
		r.bad = true
	}
	for range blocks {
		b := packBlock{kind: r.byte(), stored: r.number(1 << 30), chunks: r.number(maxPackChunks)}
		if b.kind > blockZstd || len(t.chunks)+b.chunks > maxPackChunks {
			r.bad = true
		}
		for range b.chunks {
			if r.bad {
				return packTable{}, nil, errTable
			}
			c := packChunk{digest: r.digest(), size: r.number(MaxChunk)}
			b.raw += c.size
			t.chunks = append(t.chunks, c)
		}
		t.blocks = append(t.blocks, b)
	}
	if r.bad {
		return packTable{}, nil, errTable
	}
	return t, r.p, nil
}

type tableReader struct {
	p   []byte
	bad bool
}

func (r *tableReader) number(most int) int {
	v, n := binary.Uvarint(r.p)
	if n <= 0 || v > uint64(most) {
		r.bad = true
		return 0
	}
	r.p = r.p[n:]
	return int(v)
}

func (r *tableReader) take(n int) []byte {
	if r.bad || len(r.p) < n {
		r.bad = true
		return make([]byte, n)
	}
	out := r.p[:n]
	r.p = r.p[n:]
	return out
}

func (r *tableReader) byte() byte     { return r.take(1)[0] }
func (r *tableReader) digest() Digest { return Digest(r.take(len(Digest{}))) }

// EncodeAll and DecodeAll are safe for concurrent use. The fastest level keeps a capture's
// processor time near that of a plain tar.
var (
	packEncoder = func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(1<<20), zstd.WithEncoderCRC(false))
		if err != nil {
			panic(err) // the options are constants
		}
		return e
	}()
	packDecoder = func() *zstd.Decoder {
		d, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(64<<20))
		if err != nil {
			panic(err) // the options are constants
		}
		return d
	}()
)

// unpackRaw may reuse out.
func unpackRaw(b packBlock, packed, out []byte) ([]byte, error) {
	if b.kind == blockPlain {
		if len(packed) != b.raw {
			return nil, fmt.Errorf("%w: a block should have %d bytes, but has %d", ErrRotten, b.raw, len(packed))
		}
		return packed, nil
	}
	raw, err := packDecoder.DecodeAll(packed, out[:0])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRotten, err)
	}
	if len(raw) != b.raw {
		return nil, fmt.Errorf("%w: a block should have %d bytes, but has %d", ErrRotten, b.raw, len(raw))
	}
	return raw, nil
}

func packTail(t *packTable) []byte {
	table := packEncoder.EncodeAll(t.append(nil), nil)
	return append(binary.BigEndian.AppendUint32(table, uint32(len(table))), packMagic...)
}

// verifyPack compares a pack with its writer's table t, and passes each chunk to see.
func verifyPack(r io.Reader, t *packTable, see func(chunk []byte)) error {
	head := make([]byte, len(packMagic))
	if _, err := io.ReadFull(r, head); err != nil {
		return rotten(err)
	}
	if string(head) != packMagic {
		return fmt.Errorf("%w: it does not begin as a pack", ErrRotten)
	}
	var buf, out []byte
	chunks := t.chunks
	for _, b := range t.blocks {
		if cap(buf) < b.stored {
			buf = make([]byte, b.stored+b.stored/8)
		}
		if _, err := io.ReadFull(r, buf[:b.stored]); err != nil {
			return rotten(err)
		}
		raw, err := unpackRaw(b, buf[:b.stored], out)
		if err != nil {
			return err
		}
		if b.kind == blockZstd {
			out = raw
		}
		for _, c := range chunks[:b.chunks] {
			if DigestOf(raw[:c.size]) != c.digest {
				return fmt.Errorf("%w: chunk %s has other bytes", ErrRotten, c.digest)
			}
			if see != nil {
				see(raw[:c.size])
			}
			raw = raw[c.size:]
		}
		chunks = chunks[b.chunks:]
	}
	tail, err := io.ReadAll(io.LimitReader(r, 16<<20))
	if err != nil {
		return rotten(err)
	}
	if !bytes.Equal(tail, packTail(t)) {
		return fmt.Errorf("%w: the pack's table differs from the one that was written", ErrRotten)
	}
	return nil
}
