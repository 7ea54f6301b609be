package hostexec_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/hostexec/tree"
)

// If the caller's function fails, Read ends at once, even if the host has nothing more to
// send and its script does not end by itself.
func TestAReaderThatFailsDoesNotWaitForTheHost(t *testing.T) {
	dir := t.TempDir()
	data := make([]byte, 2<<20)
	rand.NewChaCha8([32]byte{}).Read(data)
	if err := os.WriteFile(dir+"/file", data, 0o600); err != nil {
		t.Fatal(err)
	}
	gate := filepath.Join(t.TempDir(), "gate")
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	far := farHost(t, hosttest.StartSSHD(t, hosttest.Options{}).Spec())
	// All bytes but the last ones arrive. After that neither further bytes nor the end of
	// the stream arrive.
	h := &otherShell{far, without(t, "/usr/bin", "zstd", `f=$(mktemp); cat >$f; [ -s $f ] || { rm $f; exit 0; }
"$real" "$@" <$f | head -c -100000; rm $f
while [ -e `+gate+` ]; do sleep 0.1; done`)}
	defer os.Remove(gate)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	why := errors.New("enough")
	err := tree.Read(ctx, h, dir, slices.Values([]string{"file"}), func(f *tree.File) error {
		if _, err := io.CopyN(io.Discard, f, f.Size-300_000); err != nil {
			return err
		}
		return why
	}, nil)
	if !errors.Is(err, why) || ctx.Err() != nil {
		t.Errorf("%v; given up by hand: %v", err, ctx.Err())
	}
}
