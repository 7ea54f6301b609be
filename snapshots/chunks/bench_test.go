package chunks

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"fairlead.dev/fairlead/seeds"
)

// codeLike returns content like source code: words from a vocabulary, in files of
// 20 kB.
func codeLike(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 3))
	words := make([]string, 4000)
	for i := range words {
		words[i] = fmt.Sprintf("%x", r.Uint64N(1<<(8+r.Uint64N(32))))
	}
	var b bytes.Buffer
	for b.Len() < n {
		b.WriteString(words[int(r.ExpFloat64()*400)%len(words)])
		b.WriteByte(" \n\t(=."[r.IntN(6)])
	}
	return b.Bytes()[:n]
}

// peakHeap runs fn and returns the largest increase of memory in use meanwhile, including
// garbage. It takes samples.
func peakHeap(fn func()) (peak uint64) {
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	var most atomic.Uint64
	done := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		var m runtime.MemStats
		for {
			runtime.ReadMemStats(&m)
			most.Store(max(most.Load(), m.HeapAlloc))
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	fn()
	close(done)
	<-stopped
	return most.Load() - min(most.Load(), before.HeapAlloc)
}

func benchmarkPut(b *testing.B, file int, make func(seed uint64, n int) []byte) {
	secret := func() Masker {
		return seeds.NewRedactor("team", []seeds.Secret{seeds.NewSecret("a-secret-that-is-not-there-0123456789")}).MaskStream()
	}
	const total = 128 << 20
	pool := make(1, 32<<20)
	b.SetBytes(total)
	var peak uint64
	for n := range b.N {
		b.StopTimer()
		st, _ := openTestStore(b)
		c := Open(st, Options{})
		b.StartTimer()
		peak = max(peak, peakHeap(func() {
			batch := c.NewBatch(b.Context(), BatchOptions{Mask: secret})
			defer batch.Abort()
			for i := range total / file {
				at := (i * file) % (len(pool) - file)
				copy(pool[at:], fmt.Appendf(nil, "%d %d", n, i))
				if _, err := batch.Put(pool[at : at+file]); err != nil {
					b.Fatal(err)
				}
			}
			added, err := batch.Flush()
			if err == nil {
				err = batch.Commit(func() error { return nil })
			}
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(added.Stored)/float64(added.Bytes), "stored/byte")
		}))
	}
	b.ReportMetric(float64(peak)/(1<<20), "peakMiB")
}

func BenchmarkPut(b *testing.B) {
	b.Run("source-20k", func(b *testing.B) { benchmarkPut(b, 20<<10, codeLike) })
	b.Run("noise-20k", func(b *testing.B) { benchmarkPut(b, 20<<10, noise) })
	b.Run("source-1M", func(b *testing.B) { benchmarkPut(b, 1<<20, codeLike) })
	b.Run("noise-4M", func(b *testing.B) { benchmarkPut(b, 4<<20, noise) })
}

func BenchmarkSplit(b *testing.B) {
	for name, file := range map[string][]byte{"noise": noise(1, 64<<20), "zeros": make([]byte, 64<<20)} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(file)))
			for range b.N {
				if err := Split(struct{ io.Reader }{bytes.NewReader(file)}, int64(len(file)), func([]byte, int64) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkGet(b *testing.B) {
	st, _ := openTestStore(b)
	c := Open(st, Options{})
	pool := codeLike(1, 64<<20)
	var chunks [][]byte
	for i := 0; i+20<<10 <= len(pool); i += 20 << 10 {
		chunks = append(chunks, pool[i:i+20<<10])
	}
	digests, _, err := putAll(b.Context(), c, BatchOptions{}, chunks)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(pool)))
	for b.Loop() {
		r := c.NewReader(b.Context())
		for _, d := range digests {
			if _, err := r.Get(d); err != nil {
				b.Fatal(err)
			}
		}
	}
}
