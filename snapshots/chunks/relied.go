package chunks

// ReliedBytes estimates the stored size of all chunks that a batch relies on.
func (b *Batch) ReliedBytes() int64 {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	needed := map[uint32]int64{}
	for i := range b.c.index.shards {
		for _, e := range b.c.index.shards[i] {
			if b.relied[e.pack].has(e.pos) {
				needed[e.pack] += e.bytes()
			}
		}
	}
	var sum int64
	for n, bytes := range needed {
		if p := &b.c.index.packs[n]; p.raw > 0 {
			sum += int64(float64(min(bytes, p.raw)) / float64(p.raw) * float64(p.stored))
		}
	}
	return sum
}
