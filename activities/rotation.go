package activities

import (
	"context"
	"errors"
	"fmt"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

// loginRotates reports whether codex changes a seed's auth.json while it works.
func loginRotates(r *protocol.SeedRef) bool { return r != nil && r.Kind == string(seeds.KindChatGPT) }

// maxAuth is the longest auth.json that is read back from a host.
const maxAuth = 1 << 20

// An unsavable is an auth.json on a host that cannot become the seed's next generation. Nor
// may it be given up unless a person says so.
type unsavable struct {
	rotation seeds.Rotation
	err      error
}

func (e *unsavable) Error() string { return e.err.Error() }
func (e *unsavable) Unwrap() error { return e.err }

// compareAuth compares a host's auth.json with the seed's. If the host's must neither be
// saved nor be wiped, the error is *unsavable.
func compareAuth(seed, host []byte) (seeds.Rotation, error) {
	r, err := seeds.CompareAuth(seed, host)
	if err != nil {
		return r, &unsavable{r, err}
	}
	return r, nil
}

// storeRotated stores the generation after cur: the same bundle with another auth.json. It
// reads the bundle back. The bundle is not a generation of the seed until the seed's
// workflow takes it. When repeated, storeRotated finds the stored bundle.
func (s *site) storeRotated(ctx context.Context, cur *protocol.SeedRef, auth []byte) (protocol.SeedRef, []protocol.SeedFile, error) {
	b, err := s.bundle(ctx, cur)
	if err != nil {
		return protocol.SeedRef{}, nil, err
	}
	next, err := b.WithAuth(auth)
	if err != nil {
		return protocol.SeedRef{}, nil, fmt.Errorf("seed %s with the auth.json of the host: %w", cur.Name, err)
	}
	ref, err := seeds.SaveAgain(ctx, s.Store, cur.Name, cur.Generation+1, next)
	if err != nil {
		return protocol.SeedRef{}, nil, err
	}
	out := protocol.SeedRef{Name: ref.Name, Generation: ref.Generation, Blob: ref.Blob, Digest: ref.Digest, Kind: string(ref.Kind), Epoch: cur.Epoch}
	return out, filesOf(next), nil
}

func filesOf(b *seeds.Bundle) []protocol.SeedFile {
	var files []protocol.SeedFile
	for _, f := range b.Manifest().Files {
		files = append(files, protocol.SeedFile{Path: f.Path, Mode: f.Mode, Digest: f.Digest})
	}
	return files
}

// readAuth reads the auth.json of a host; nil if there is none.
func readAuth(ctx context.Context, h hostexec.Host, file, known string) (auth []byte, changed bool, err error) {
	auth, changed, err = hostexec.ReadChanged(ctx, h, file, maxAuth, known)
	if errors.Is(err, hostexec.ErrNotExist) {
		return nil, true, nil
	}
	return auth, changed, err
}
