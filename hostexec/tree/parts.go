package tree

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/internal/script"
)

// takePartScript lists the parts of a stream in a folder, and adds one. Several scripts may
// add parts at once, each in its own file. A listed part may still grow; only the listed
// number of bytes belongs to it.
//
// The script prints the stream's compression, "part NAME SIZE SHA256" for each part with
// it, and an empty line. Then it reads the name of the part to add (empty if nothing is
// missing), and the part.
//
// $1 the folder of the parts.
const takePartScript = treeTakeScript + `LC_ALL=C; export LC_ALL
umask 077
mkdir -p -- "$1" || exit 1
echo "$how"
if command -v sha256sum; then sum=sha256sum
elif command -v shasum; then sum='shasum -a 256'
elif command -v openssl; then sum='openssl dgst -sha256 -r'
else sum=
fi >/dev/null
d=$1
set -- "$d/part-$how-"*
# Parts that nobody can check are of no use, nor are so many.
if [ -z "$sum" ] || [ $# -gt 100 ]; then
	rm -f -- "$@"
	set --
fi
for f; do
	[ -f "$f" ] || continue
	n=$(wc -c <"$f") && s=$(head -c "$n" <"$f" | $sum) || exit 1
	echo part "${f##*/}" $n "${s%% *}"
done
echo
IFS= read -r name || exit 1
[ "$name" ] || exit 0
exec cat >"$d/$name"`

// unpackPartsScript unpacks a tar stream from its parts.
//
// $1 the folder to unpack to, $2 the folder of the parts, $3 their compression; then the
// name and the size of each.
const unpackPartsScript = `LC_ALL=C; export LC_ALL
umask 077
d=$1 p=$2 how=$3
shift 3
mkdir -p -- "${d%/*}/" && mkdir -- "$d" || exit 1
parts() {
	while [ $# -gt 0 ]; do
		head -c "$2" <"$p/$1" || return
		shift 2
	done
}
case $how in
plain) parts "$@" | tar -xpof - -C "$d" ;;
*) parts "$@" | $how -dc | tar -xpof - -C "$d" ;;
esac`

type treePart struct {
	name   string
	offset int64
	size   int64
	sum    []byte
}

var treePartName = regexp.MustCompile(`^part-(plain|zstd|gzip)-([0-9]{1,18})-[A-Z2-7]{1,64}$`)

// PutInParts unpacks the tar stream that write writes into dir, which must not exist. The
// host keeps received data in the folder parts, so that the next call for the same stream
// sends only the rest. write must write the same bytes each time; a part is used only if
// its SHA-256 matches. Concurrent calls do not disturb each other.
//
// The caller removes the folder parts after it has verified the tree in dir, or when it
// gives up. If the compression changes between two calls, because the host seems farther
// away or has other tools, the upload starts anew.
func PutInParts(ctx context.Context, h hostexec.Host, dir, parts string, write func(io.Writer) error) error {
	err := errors.Join(script.CheckPath(dir), script.CheckPath(parts))
	var how string
	var there []treePart
	if err == nil {
		how, there, err = sendParts(ctx, h, parts, write)
	}
	if err == nil {
		args := []string{dir, parts, how}
		for _, p := range there {
			args = append(args, p.name, strconv.FormatInt(p.size, 10))
		}
		_, err = h.Run(ctx, hostexec.Command{Script: unpackPartsScript, Args: args, Bulk: true})
	}
	if err != nil {
		return fmt.Errorf("put tree %s on %s: %w", dir, h.Name(), hostexec.SentBy(h, err))
	}
	return nil
}

// sendParts makes sure that the host has all of a stream. It returns the compression and
// the parts in order.
func sendParts(ctx context.Context, h hostexec.Host, parts string, write func(io.Writer) error) (how string, chain []treePart, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := h.Start(ctx, hostexec.Command{Script: takePartScript, Args: []string{parts}, Bulk: true, TellFar: true})
	if err != nil {
		return "", nil, err
	}
	defer s.Close()
	how, there, err := readParts(s)
	if errors.Is(err, script.ErrGarbled) || errors.Is(err, hostexec.ErrFlood) {
		return "", nil, err // the host may go on for ever
	}
	if err != nil {
		if waitErr := s.Wait(); waitErr != nil {
			err = waitErr
		}
		return "", nil, err
	}
	pos := int64(0)
	for {
		p, err := longestPart(there, pos, how, write)
		if err != nil {
			s.CloseWrite()
			return "", nil, errors.Join(err, partDropped(s))
		}
		if p == nil {
			break
		}
		chain, pos = append(chain, *p), pos+p.size
	}
	rest := newPackedStream(how, write)
	defer rest.Close()
	added := treePart{name: fmt.Sprintf("part-%s-%d-%s", how, pos, rand.Text()), offset: pos}
	err = rest.skip(pos)
	var first []byte
	if err == nil {
		first, err = rest.Peek(1)
	}
	switch {
	case errors.Is(err, io.EOF):
		err = script.LastWord(s, "")
		return how, chain, err
	case err == nil:
		_, err = io.WriteString(s, added.name+"\n")
	}
	if err == nil && len(first) > 0 {
		added.size, err = io.CopyBuffer(&spaceWatcher{s: s}, onlyReader{rest}, make([]byte, 256<<10))
	}
	s.CloseWrite()
	if errors.Is(err, hostexec.ErrSource) {
		return "", nil, errors.Join(err, partDropped(s))
	}
	if waitErr := s.Wait(); waitErr != nil {
		return "", nil, waitErr // says more than the error of a write
	}
	return how, append(chain, added), err
}

// readParts reads the list that takePartScript prints.
func readParts(s hostexec.Stream) (how string, there []treePart, err error) {
	in := bufio.NewReaderSize(onlyReader{s}, 256)
	for n := 0; ; n++ {
		line, err := hostexec.ReadLine(in, maxHead, "the list of parts")
		if err != nil {
			return "", nil, err
		}
		words := strings.Fields(line)
		switch {
		case n == 0 && len(words) == 1 && slices.Contains([]string{"plain", "zstd", "gzip"}, words[0]):
			how = words[0]
			continue
		case n > 0 && len(words) == 0:
			return how, there, nil
		case n > 0 && n <= 100 && len(words) == 4 && words[0] == "part":
			m := treePartName.FindStringSubmatch(words[1])
			size, sizeErr := strconv.ParseInt(words[2], 10, 64)
			sum, sumErr := hex.DecodeString(words[3])
			if m != nil && m[1] == how && sizeErr == nil && size >= 0 && sumErr == nil {
				offset, _ := strconv.ParseInt(m[2], 10, 64) // the pattern allows only numbers that fit
				there = append(there, treePart{words[1], offset, size, sum})
				continue
			}
		}
		return "", nil, fmt.Errorf("%w: bad line in the list of parts: %.100q", script.ErrGarbled, line)
	}
}

// longestPart returns the longest part that begins at pos and has the bytes of the stream,
// or nil.
func longestPart(there []treePart, pos int64, how string, write func(io.Writer) error) (*treePart, error) {
	var from []treePart
	for _, p := range there {
		if p.offset == pos && p.size > 0 {
			from = append(from, p)
		}
	}
	if len(from) == 0 {
		return nil, nil
	}
	slices.SortFunc(from, func(a, b treePart) int { return cmp.Compare(a.size, b.size) })
	stream := newPackedStream(how, write)
	defer stream.Close()
	if err := stream.skip(pos); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	var longest *treePart
	digest, read := sha256.New(), int64(0)
	for i, p := range from {
		n, err := io.CopyN(digest, stream, p.size-read)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		read += n
		if read == p.size && bytes.Equal(digest.Sum(nil), p.sum) {
			longest = &from[i]
		}
	}
	return longest, nil
}

type packedStream struct {
	*bufio.Reader
	pipe  *io.PipeReader
	ended chan struct{}
}

func newPackedStream(how string, write func(io.Writer) error) *packedStream {
	r, w := io.Pipe()
	s := &packedStream{bufio.NewReaderSize(script.MarkedReader{Reader: r, As: hostexec.ErrSource}, 64<<10), r, make(chan struct{})}
	go func() {
		defer close(s.ended)
		packed := packTo(how, w, false)
		w.CloseWithError(errors.Join(write(packed), packed.Close()))
	}()
	return s
}

func (s *packedStream) skip(n int64) error {
	_, err := io.CopyN(io.Discard, s.Reader, n)
	return err
}

func (s *packedStream) Close() {
	s.pipe.Close()
	<-s.ended
}

// partDropped waits until the host has dropped an incomplete part.
func partDropped(s hostexec.Stream) error {
	var exit *hostexec.ExitError
	if err := s.Wait(); !errors.As(err, &exit) {
		return err
	}
	return nil
}
