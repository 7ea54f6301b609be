package kit

import (
	"context"
	"errors"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/seeds"
)

// ReadAuth reads a host's auth.json; nil if there is none.
func ReadAuth(ctx context.Context, h hostexec.Host, file, known string) (auth []byte, changed bool, err error) {
	auth, changed, err = hostexec.ReadChanged(ctx, h, file, maxAuth, known)
	if errors.Is(err, hostexec.ErrNotExist) {
		return nil, true, nil
	}
	return auth, changed, err
}

// CompareAuth compares a host's auth.json with the seed's. An *Unsavable must neither be
// saved nor wiped.
func CompareAuth(seed, host []byte) (seeds.Rotation, error) {
	r, err := seeds.CompareAuth(seed, host)
	if err != nil {
		return r, &Unsavable{r, err}
	}
	return r, nil
}

const maxAuth = 1 << 20
