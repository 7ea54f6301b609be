package snapshots

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sort"

	"fairlead.dev/fairlead/internal/store"
)

// An openPack is a pack of which blocks are read.
type openPack struct {
	number  uint32
	blob    blobAt
	table   packTable
	begins  []int64  // of blocks in the pack
	first   []int    // the first chunk of each block
	offsets []uint32 // of chunks in their blocks
}

// openPack reads what a pack holds: ErrMissing, ErrRotten or the store's error.
func (c *Chunks) openPack(ctx context.Context, id packID) (*openPack, error) {
	p := &openPack{}
	err := func() (err error) {
		if p.blob, err = c.blobs.newReaderAt(ctx, id.key()); err != nil {
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
			p.offsets = append(p.offsets, uint32(offset)) // a block is a few megabytes
			offset += c.size
		}
		chunks = chunks[b.chunks:]
	}
	return p, nil
}

// packError gives an error of opening or reading a pack its meaning.
func packError(err error) error {
	switch {
	case errors.Is(err, store.ErrNotFound):
		return fmt.Errorf("%w: %w", ErrMissing, err)
	case errors.Is(err, errTable):
		return fmt.Errorf("%w: %w", ErrRotten, err)
	}
	return rotten(err)
}

func (p *openPack) Close() { _ = p.blob.Close() } // it was only read

// verify reads all of a pack and compares it with its own table.
func (p *openPack) verify() error {
	return verifyPack(io.NewSectionReader(p.blob, 0, p.blob.Size()), &p.table, nil)
}

// readTail takes the table out of a pack.
func readTail(pack blobAt) (packTable, error) {
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

// readFull reads all of p, also right before the end.
func readFull(r io.ReaderAt, p []byte, at int64) error {
	n, err := r.ReadAt(p, at)
	if n == len(p) {
		return nil
	}
	return err
}

// maxTable is more than a table of maxPackChunks ever is.
const maxTable = 16 << 20

// decodeTable unpacks the table of a pack, before which there are so many bytes.
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

// place says where the chunk at a position is: which block, and from where to
// where in it.
func (p *openPack) place(pos int) (block, from, to int) {
	block = sort.SearchInts(p.first, pos+1) - 1
	from, to = int(p.offsets[pos]), p.table.blocks[block].raw
	if pos+1 < p.first[block]+p.table.blocks[block].chunks {
		to = int(p.offsets[pos+1])
	}
	return block, from, to
}

// block reads a block. What it returns lies in one of the buffers, which grow
// as they have to.
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

// sized is a buffer of so many bytes, the same one if it is large enough.
func sized(buf []byte, n int) []byte {
	if cap(buf) < n {
		return make([]byte, n, (n+64<<10-1)&^(64<<10-1))
	}
	return buf[:n]
}
