package api

import (
	"errors"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/command"
)

// maxNonces is how many requests of one principal are remembered, and manyNonces of all.
const (
	maxNonces  = 20_000
	manyNonces = 200_000
)

var (
	errReplayed = errors.New("it was made before, and counts once")
	errTooMany  = errors.New("too many requests were made within the last minutes: wait some minutes")
)

// nonces remembers signed requests for as long as their time lets them count. Only requests
// whose signature counts are remembered, so strangers cannot fill it.
type nonces struct {
	mu    sync.Mutex
	used  map[string]map[string]time.Time // by principal and nonce: until when
	count int
	swept time.Time
}

// use refuses a request that was made before.
func (n *nonces) use(r command.SignedRequest, now time.Time) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	mine := n.used[r.Principal]
	if _, ok := mine[r.Nonce]; ok {
		return errReplayed
	}
	if now.Sub(n.swept) > time.Minute || n.count >= manyNonces || len(mine) >= maxNonces {
		n.sweep(now)
		mine = n.used[r.Principal]
	}
	if n.count >= manyNonces || len(mine) >= maxNonces {
		return errTooMany
	}
	if n.used == nil {
		n.used = map[string]map[string]time.Time{}
	}
	if mine == nil {
		mine = map[string]time.Time{}
		n.used[r.Principal] = mine
	}
	mine[r.Nonce] = r.At.Add(command.MaxSkew)
	n.count++
	return nil
}

func (n *nonces) sweep(now time.Time) {
	n.swept = now
	for who, mine := range n.used {
		for nonce, until := range mine {
			if until.Before(now) {
				delete(mine, nonce)
				n.count--
			}
		}
		if len(mine) == 0 {
			delete(n.used, who)
		}
	}
}
