package logins

import (
	"context"
	"fmt"

	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

// storeRotated stores the generation after cur, with another auth.json, and reads it back.
// It is no generation until the seed's workflow takes it. A repeat finds the stored bundle.
func storeRotated(ctx context.Context, s *site.Site, cur *protocol.SeedRef, auth []byte) (protocol.SeedRef, []protocol.SeedFile, error) {
	b, err := s.Bundle(ctx, cur)
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
