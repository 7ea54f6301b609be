package hostexec

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"

	"fairlead.dev/fairlead/hostexec/internal/script"
)

// receiveScript reads a file from its input and puts it in place, complete and verified, or
// not at all. It holds the fence's lock only for the rename. If SFTP carries the bytes (see
// sftp.go), the script still creates the file and puts it in place.
//
// $1 path, $2 mode, $3 size, $4 sha256, $5 a random word.
const receiveScript = `LC_ALL=C; export LC_ALL
umask 077
d=${1%%/*} t=${1%%/*}/.fl-$5
%[1]s
[ ! -d "$1" ] || { echo "$1: is a directory" >&2; exit 1; }
mkdir -p -- "$d/" || exit 1
trap 'rm -f -- "$t"' EXIT
trap 'exit 1' HUP INT TERM PIPE
%[4]s
size=$(wc -c <"$t") || exit 1
[ "$size" -eq "$3" ] || { echo "$1: $size bytes came, not $3: nothing was written" >&2; exit 1; }
if command -v sha256sum; then sum=$(sha256sum <"$t")
elif command -v shasum; then sum=$(shasum -a 256 <"$t")
elif command -v openssl; then sum=$(openssl dgst -sha256 -r <"$t")
else sum=$4
fi >/dev/null || exit 1
[ "${sum%%%% *}" = "$4" ] || { echo "$1: sha256 is ${sum%%%% *}, not $4: nothing was written" >&2; exit 1; }
dd if=/dev/null of="$t" conv=notrunc,fsync 2>/dev/null || sync "$t" 2>/dev/null || sync
chmod "$2" "$t" || exit 1
%[2]s
mv -f -- "$t" "$1" || exit 1
%[3]s`

// Two ways to fill the temporary file. receiveInput copies the input. receiveTold creates
// the file, reports that, and reads a line: "there" (the file is complete), "cat" (the
// content follows), or "why" (it could not be written: find the cause).
const (
	receiveInput = `cat >"$t" || exit 1`
	receiveTold  = `: >"$t" && echo ready && IFS= read -r how || exit 1
case $how in
there) ;;
cat)
	# What a broken session may still write goes to the old file, which holds no space.
	: >"$t"
	rm -f -- "$t" || exit 1
	t=$t.
	cat >"$t" || exit 1 ;;
*)
	dd if=/dev/zero bs=65536 count=16 >>"$t"
	exit 1 ;;
esac`
)

func receiveCommand(fill, path string, size int64, sum string, mode fs.FileMode, fence *Fence) (Command, error) {
	if err := script.CheckPath(path); err != nil {
		return Command{}, err
	}
	if mode&^fs.ModePerm != 0 || mode == 0 {
		return Command{}, fmt.Errorf("mode %v: only permissions can be set", mode)
	}
	check, again, unlock := "", "", ""
	if fence != nil {
		if err := fence.Check(); err != nil {
			return Command{}, err
		}
		// The lock is not held during the transfer, so the fence is checked before it and
		// again for the rename.
		check, again, unlock = fencePrologue(*fence)+"\n"+script.FenceEnd, script.FenceAgain(fence.Epoch.Generation, fence.Epoch.Pump, fence.Epoch.Attempt), script.FenceEnd
	}
	return Command{
		Script: fmt.Sprintf(receiveScript, check, again, unlock, fill),
		Args:   []string{path, strconv.FormatUint(uint64(mode), 8), strconv.FormatInt(size, 10), sum, rand.Text()},
	}, nil
}

// WriteFile writes a small file atomically: a temporary file in the same folder, readable
// only by us, then fsync, chmod and rename. Parents are created with mode 0700. Size and
// SHA-256 are verified. With a fence, the rename happens under its lock and only if the
// host knows no higher epoch.
func WriteFile(ctx context.Context, h Host, path string, data []byte, mode fs.FileMode, fence *Fence) error {
	sum := sha256.Sum256(data)
	via, fill := route(h, int64(len(data)))
	c, err := receiveCommand(fill, path, int64(len(data)), hex.EncodeToString(sum[:]), mode, fence)
	if err != nil {
		return fmt.Errorf("write file on %s: %w", h.Name(), err)
	}
	if c.Stdin = data; via != nil {
		err = via.feedBySFTP(ctx, c, bytes.NewReader(data), int64(len(data)), sum)
	} else if !c.small() {
		err = feed(ctx, h, c, bytes.NewReader(data), int64(len(data)), sum)
	} else {
		_, err = h.Run(ctx, c)
	}
	if err != nil {
		return fmt.Errorf("write %s on %s: %w", path, h.Name(), err)
	}
	return nil
}

// Upload is WriteFile for size bytes of r. It verifies the SHA-256 (hex) here and, if the
// host can compute one, on the host. On failure nothing is left behind and path is
// unchanged.
func Upload(ctx context.Context, h Host, path string, r io.Reader, size int64, sha256Hex string, mode fs.FileMode, fence *Fence) error {
	var sum [sha256.Size]byte
	raw, err := hex.DecodeString(sha256Hex)
	if err == nil && copy(sum[:], raw) != len(sum) || len(raw) != len(sum) {
		err = fmt.Errorf("%q is not a SHA-256 in hex", sha256Hex)
	}
	via, fill := route(h, size)
	var c Command
	if err == nil {
		c, err = receiveCommand(fill, path, size, hex.EncodeToString(sum[:]), mode, fence)
	}
	if err == nil && size < 0 {
		err = fmt.Errorf("size is %d", size)
	}
	switch {
	case err != nil:
	case via != nil:
		err = via.feedBySFTP(ctx, c, r, size, sum)
	default:
		err = feed(ctx, h, c, r, size, sum)
	}
	if err != nil {
		return fmt.Errorf("upload %s to %s: %w", path, h.Name(), err)
	}
	return nil
}

func feed(ctx context.Context, h Host, c Command, r io.Reader, size int64, sum [sha256.Size]byte) error {
	c.Bulk = true
	c.Stdin = nil
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := h.Start(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()
	return pour(s, r, size, sum)
}

// pour sends size bytes of r to a receive command and waits for its end. It sends the last
// byte, without which the host rejects the file, only after the sum is verified.
func pour(s Stream, r io.Reader, size int64, sum [sha256.Size]byte) error {
	digest := sha256.New()
	src := io.TeeReader(io.LimitReader(script.MarkedReader{Reader: r, As: ErrSource}, size), digest)
	sendErr := func() error {
		if size > 1 {
			if _, err := io.CopyBuffer(script.OnlyWriter{Writer: s}, io.LimitReader(src, size-1), make([]byte, 256<<10)); err != nil {
				return err
			}
		}
		last, err := io.ReadAll(src)
		if err != nil {
			return err
		}
		if n := int64(len(last)); n != min(size, 1) {
			return fmt.Errorf("%w: it ended early", ErrSource)
		}
		if !bytes.Equal(digest.Sum(nil), sum[:]) {
			return fmt.Errorf("%w: its sha256 is %x, not %x", ErrSource, digest.Sum(nil), sum)
		}
		if _, err := s.Write(last); err != nil {
			return err
		}
		return s.CloseWrite()
	}()
	if sendErr != nil {
		s.CloseWrite() // the host drops a file that is too short
	}
	if errors.Is(sendErr, ErrSource) {
		return errors.Join(sendErr, dropped(s))
	}
	if err := s.Wait(); err != nil {
		return err // says more than the error of a write
	}
	return sendErr
}

// ErrSource means that the reader of a file to send failed, or does not have the announced
// size or sum.
var ErrSource = errors.New("data to send")

// dropped waits until the host has dropped an incomplete file.
func dropped(s Stream) error {
	var exit *ExitError
	if err := s.Wait(); !errors.As(err, &exit) {
		return err
	}
	return nil
}
