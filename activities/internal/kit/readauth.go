package kit

import (
	"context"
	"errors"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/seeds"
)

// ReadAuth reads the auth.json of a host; nil if there is none.
func ReadAuth(ctx context.Context, h hostexec.Host, file, known string) (auth []byte, changed bool, err error) {
	auth, changed, err = hostexec.ReadChanged(ctx, h, file, maxAuth, known)
	if errors.Is(err, hostexec.ErrNotExist) {
		return nil, true, nil
	}
	return auth, changed, err
}

// CompareAuth compares a host's auth.json with the seed's. If the host's must neither be
// saved nor be wiped, the error is *unsavable.
func CompareAuth(seed, host []byte) (seeds.Rotation, error) {
	r, err := seeds.CompareAuth(seed, host)
	if err != nil {
		return r, &Unsavable{r, err}
	}
	return r, nil
}

// maxAuth is the longest auth.json that is read back from a host.
const maxAuth = 1 << 20
