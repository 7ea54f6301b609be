package chunks

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"
)

// An IndexKey is the first half of a digest; content is compared with all of it.
type IndexKey [16]byte

func KeyOf(d Digest) IndexKey { return IndexKey(d[:16]) }

// An indexEntry takes 24 bytes.
type indexEntry struct {
	key  IndexKey
	pack uint32
	pos  uint16
	size uint16 // in sizeUnits, rounded up
}

// sizeUnit lets chunk sizes fit 16 bits, precise enough to decide whether a pack is worth
// copying.
const sizeUnit = MaxChunk/65535 + 1

func (e indexEntry) bytes() int64 { return int64(e.size) * sizeUnit }

type slot struct {
	pack uint32
	pos  uint16
}

type packInfo struct {
	id      packID
	lists   bool
	chunks  int
	raw     int64 // of the chunks
	stored  int64 // size of the blob when it was written
	created time.Time

	covered   int  // number of index blobs that name the pack
	condemned bool // no batch may begin to rely on it
	found     bool // in the store although no index names it
	gone      bool // its entries were removed from the index
}

// reliable reports whether a snapshot may rely on a pack.
func (p *packInfo) reliable() bool { return !p.condemned && !p.found && !p.gone }

// A chunkIndex holds the places of chunks. Pack numbers never change.
type chunkIndex struct {
	shards [256][]indexEntry // by the first byte of the key, sorted
	packs  []packInfo
	byID   map[packID]uint32
	blobs  map[packID][]uint32 // those that were read
}

func newChunkIndex() chunkIndex {
	return chunkIndex{byID: map[packID]uint32{}, blobs: map[packID][]uint32{}}
}

func compareEntries(a, b indexEntry) int {
	if c := bytes.Compare(a.key[:], b.key[:]); c != 0 {
		return c
	}
	if c := cmp.Compare(a.pack, b.pack); c != 0 {
		return c
	}
	return cmp.Compare(a.pos, b.pos)
}

func (x *chunkIndex) each(d Digest, fn func(indexEntry) bool) {
	key := KeyOf(d)
	shard := x.shards[key[0]]
	at, _ := slices.BinarySearchFunc(shard, key, func(e indexEntry, key IndexKey) int {
		return bytes.Compare(e.key[:], key[:])
	})
	for ; at < len(shard) && shard[at].key == key; at++ {
		if !fn(shard[at]) {
			return
		}
	}
}

func (x *chunkIndex) usable(d Digest) (found slot, ok bool) {
	x.each(d, func(e indexEntry) bool {
		ok = x.packs[e.pack].reliable()
		found = slot{e.pack, e.pos}
		return !ok
	})
	return found, ok
}

func (x *chunkIndex) add(blob packID, found []indexedPack) {
	if _, known := x.blobs[blob]; known {
		return
	}
	numbers := make([]uint32, 0, len(found))
	var fresh freshEntries
	for _, f := range found {
		n := x.insert(f, &fresh)
		x.packs[n].covered++
		x.packs[n].found = false
		numbers = append(numbers, n)
	}
	x.blobs[blob] = numbers
	x.merge(&fresh)
}

// salvage adds a pack that no index named when packs were listed, unless one does by now.
func (x *chunkIndex) salvage(f indexedPack) {
	if n, known := x.byID[f.id]; known && !x.packs[n].gone {
		return
	}
	var fresh freshEntries
	x.packs[x.insert(f, &fresh)].found = true
	x.merge(&fresh)
}

type freshEntries [256][]indexEntry

func (x *chunkIndex) insert(f indexedPack, fresh *freshEntries) uint32 {
	n, known := x.byID[f.id]
	if !known {
		n = uint32(len(x.packs))
		x.byID[f.id] = n
		x.packs = append(x.packs, packInfo{id: f.id, gone: true})
	}
	p := &x.packs[n]
	if !p.gone {
		return n
	}
	p.lists, p.chunks, p.raw = f.table.lists, len(f.table.chunks), f.table.raw()
	p.stored, p.created, p.gone = f.stored, f.created, false
	for pos, c := range f.table.chunks {
		key := KeyOf(c.digest)
		fresh[key[0]] = append(fresh[key[0]], indexEntry{key: key, pack: n, pos: uint16(pos),
			size: uint16((c.size + sizeUnit - 1) / sizeUnit)})
	}
	return n
}

func (x *chunkIndex) merge(fresh *freshEntries) {
	for i, add := range fresh {
		if len(add) > 0 {
			x.shards[i] = mergeEntries(x.shards[i], add)
		}
	}
}

func mergeEntries(old, add []indexEntry) []indexEntry {
	slices.SortFunc(add, compareEntries)
	out := make([]indexEntry, 0, len(old)+len(add))
	for len(old) > 0 && len(add) > 0 {
		if compareEntries(old[0], add[0]) <= 0 {
			out, old = append(out, old[0]), old[1:]
		} else {
			out, add = append(out, add[0]), add[1:]
		}
	}
	return append(append(out, old...), add...)
}

// drop removes index blobs, and packs that no other blob names.
func (x *chunkIndex) drop(blobs []packID) {
	lost := false
	for _, blob := range blobs {
		for _, n := range x.blobs[blob] {
			p := &x.packs[n]
			if p.covered--; p.covered == 0 {
				p.gone, lost = true, true
			}
		}
		delete(x.blobs, blob)
	}
	if lost {
		x.sweep()
	}
}

func (x *chunkIndex) sweep() {
	for i, shard := range x.shards {
		x.shards[i] = slices.DeleteFunc(shard, func(e indexEntry) bool { return x.packs[e.pack].gone })
	}
}

// lose marks a pack that the store lacks.
func (x *chunkIndex) lose(pack uint32) {
	x.packs[pack].condemned = true
}

func (x *chunkIndex) condemn(ids []packID) {
	for _, id := range ids {
		if n, ok := x.byID[id]; ok {
			x.packs[n].condemned = true
		}
	}
}

type indexedPack struct {
	id      packID
	stored  int64
	created time.Time
	table   packTable
}

// An index blob is "flindx1\n" and, for each pack, its id, size, time and table.
const indexMagic = "flindx1\n"

func appendIndex(out []byte, packs ...indexedPack) []byte {
	if len(out) == 0 {
		out = append(out, indexMagic...)
	}
	for _, p := range packs {
		out = append(out, p.id[:]...)
		out = binary.AppendUvarint(out, uint64(p.stored))
		out = binary.AppendUvarint(out, uint64(p.created.UnixNano()))
		out = p.table.append(out)
	}
	return out
}

func readIndex(data []byte) (packs []indexedPack, err error) {
	rest, ok := bytes.CutPrefix(data, []byte(indexMagic))
	if !ok {
		return nil, errors.New("it does not begin as an index (is it newer than this program?)")
	}
	for len(rest) > 0 {
		r := tableReader{p: rest}
		p := indexedPack{id: packID(r.take(len(packID{})))}
		p.stored = int64(r.number(1 << 40))
		p.created = time.Unix(0, int64(r.number(1<<62)))
		if r.bad {
			return nil, errTable
		}
		if p.table, rest, err = readPackTable(r.p); err != nil {
			return nil, fmt.Errorf("pack %s: %w", p.id, err)
		}
		packs = append(packs, p)
	}
	return packs, nil
}
