package chunks

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sort"

	"fairlead.dev/fairlead/internal/store"
)

type openPack struct {
	number  uint32
	blob    BlobAt
	table   packTable
	begins  []int64  // of blocks in the pack
	first   []int    // chunk of each block
	offsets []uint32 // of chunks in their blocks
}

// openPack reads a pack's table. The error wraps ErrMissing or ErrRotten, or is one of the
// store.
func (c *Store) openPack(ctx context.Context, id packID) (*openPack, error) {
	p := &openPack{}
	err := func() (err error) {
		if p.blob, err = c.Blobs.OpenAt(ctx, id.key()); err != nil {
			return err
		}
		if p.table, err = readTail(p.blob); err != nil {
			p.Close()
		}
		return err
	}()
	if err != nil {
		return nil, packError(err)
	}
	at, chunks := int64(len(packMagic)), p.table.chunks
	p.offsets = make([]uint32, 0, len(chunks))
	for _, b := range p.table.blocks {
		p.begins, p.first = append(p.begins, at), append(p.first, len(p.offsets))
		at += int64(b.stored)
		offset := 0
		for _, c := range chunks[:b.chunks] {
			p.offsets = append(p.offsets, uint32(offset))
			offset += c.size
		}
		chunks = chunks[b.chunks:]
	}
	return p, nil
}

func packError(err error) error {
	switch {
	case errors.Is(err, store.ErrNotFound):
		return fmt.Errorf("%w: %w", ErrMissing, err)
	case errors.Is(err, errTable):
		return fmt.Errorf("%w: %w", ErrRotten, err)
	}
	return rotten(err)
}

func (p *openPack) Close() { _ = p.blob.Close() } // opened for reading only

func (p *openPack) verify() error {
	return verifyPack(io.NewSectionReader(p.blob, 0, p.blob.Size()), &p.table, nil)
}

func readTail(pack BlobAt) (packTable, error) {
	var end [len(packMagic) + 4]byte
	at := pack.Size() - int64(len(end))
	if at < int64(len(packMagic)) {
		return packTable{}, errTable
	}
	if err := readFull(pack, end[:], at); err != nil {
		return packTable{}, err
	}
	n := int64(binary.BigEndian.Uint32(end[:]))
	if string(end[4:]) != packMagic || n > at-int64(len(packMagic)) {
		return packTable{}, errTable
	}
	packed := make([]byte, n)
	if err := readFull(pack, packed, at-n); err != nil {
		return packTable{}, err
	}
	return decodeTable(packed, at-n)
}

// readFull treats io.EOF after the last byte as success.
func readFull(r io.ReaderAt, p []byte, at int64) error {
	n, err := r.ReadAt(p, at)
	if n == len(p) {
		return nil
	}
	return err
}

// maxTable is larger than any table of maxPackChunks.
const maxTable = 16 << 20

// decodeTable decodes a table at offset before.
func decodeTable(packed []byte, before int64) (packTable, error) {
	if len(packed) > maxTable {
		return packTable{}, errTable
	}
	plain, err := packDecoder.DecodeAll(packed, nil)
	if err != nil {
		return packTable{}, fmt.Errorf("%w: %w", errTable, err)
	}
	t, after, err := readPackTable(plain)
	if err == nil && len(after) > 0 {
		err = errTable
	}
	if err != nil {
		return packTable{}, err
	}
	size := int64(len(packMagic))
	for _, b := range t.blocks {
		size += int64(b.stored)
	}
	if size != before {
		return packTable{}, errTable
	}
	return t, nil
}

// place returns the block of a chunk, and its range there.
func (p *openPack) place(pos int) (block, from, to int) {
	block = sort.SearchInts(p.first, pos+1) - 1
	from, to = int(p.offsets[pos]), p.table.blocks[block].raw
	if pos+1 < p.first[block]+p.table.blocks[block].chunks {
		to = int(p.offsets[pos+1])
	}
	return block, from, to
}

// block reads a block into one of the buffers, which it may enlarge.
func (p *openPack) block(n int, stored, raw *[]byte) ([]byte, error) {
	b := p.table.blocks[n]
	into := stored
	if b.kind == blockPlain {
		into = raw
	}
	*into = sized(*into, b.stored)
	if err := readFull(p.blob, *into, p.begins[n]); err != nil {
		return nil, packError(err)
	}
	if b.kind != blockPlain {
		*raw = sized(*raw, b.raw)
	}
	out, err := unpackRaw(b, *into, *raw)
	if err != nil {
		return nil, err
	}
	*raw = out
	return out, nil
}

func sized(buf []byte, n int) []byte {
	if cap(buf) < n {
		return make([]byte, n, (n+64<<10-1)&^(64<<10-1))
	}
	return buf[:n]
}
