package scenario

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
)

// NewSeed returns the seed, or a new one if it is 0.
func NewSeed(seed uint64) uint64 {
	if seed == 0 {
		seed = rand.Uint64N(1 << 32)
	}
	return seed
}

// Random returns the random source of one part of a plan. It depends only on
// the seed and the names, whatever else is planned.
func Random(seed uint64, names ...any) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprintln(h, names...)
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}
