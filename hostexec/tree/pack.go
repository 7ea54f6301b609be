package tree

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/internal/script"
)

// treePackScript compresses a script's output if the host is far away ($FAIRLEAD_FAR, see
// Command.TellFar). The first line of the output names the compression.
//
// The shell function send gets a command that prints the rest. A command whose exit status
// matters must print it.
const treePackScript = `
z=
if [ "${FAIRLEAD_FAR-}" ]; then
	if zstd -qc </dev/null >/dev/null 2>&1; then z='zstd -qc'
	elif gzip -1c </dev/null >/dev/null 2>&1; then z='gzip -1c'; fi
fi
send() {
	echo "packed ${z%% *}"
	if [ "$z" ]; then "$@" | $z; else "$@"; fi
}
`

// maxWindow is how much memory zstd may ask for. More needs zstd --ultra.
const maxWindow = 16 << 20

// maxHead bounds the lines that say how what follows is written, in bytes.
const maxHead = 64 << 10

// unpackTree decompresses a stream. However much comes out, it takes little memory; the
// caller bounds what it reads.
func unpackTree(r io.Reader, size int) (*bufio.Reader, func(), error) {
	in := bufio.NewReaderSize(r, size)
	line, err := hostexec.ReadLine(in, maxHead, "the first line of a stream")
	if err != nil {
		return nil, nil, err
	}
	switch line {
	case "packed \n":
		return in, func() {}, nil
	case "packed zstd\n":
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, nil, err
		}
		// Close waits for pending reads, which end only when the caller closes the channel.
		return bufio.NewReaderSize(z, size), func() { go z.Close() }, nil
	case "packed gzip\n":
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, nil, err
		}
		return bufio.NewReaderSize(z, size), func() {}, nil
	}
	return nil, nil, fmt.Errorf("%w: it begins with %.200q", script.ErrGarbled, line)
}

// treeTakeScript is the counterpart of treePackScript: it decompresses a script's input. It
// sets the variable how to "plain", "zstd" or "gzip".
//
// The shell function take gets a command that reads the input. take fails if the command
// fails, and if the compressed input is cut off or damaged, which the command may not
// notice.
const treeTakeScript = `
how=plain
if [ "${FAIRLEAD_FAR-}" ]; then
	if zstd -qc </dev/null 2>/dev/null | zstd -qdc >/dev/null 2>&1; then how=zstd
	elif gzip -c </dev/null 2>/dev/null | gzip -dc >/dev/null 2>&1; then how=gzip; fi
fi
take() {
	[ $how != plain ] || { "$@"; return; }
	failed=$({ { $how -dc || echo $how >&3; } | "$@" || echo "$1" >&3; } 3>&1 >&2)
	[ -z "$failed" ]
}
`

// packTo returns a writer that compresses to w as how says. Equal input gives equal output.
// Close does not close w. With ahead, compression and writes to w run concurrently with
// further writes.
func packTo(how string, w io.Writer, ahead bool) io.WriteCloser {
	concurrency := 1
	if ahead {
		concurrency = 2
	}
	switch how {
	case "zstd":
		z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(concurrency), zstd.WithWindowSize(1<<20))
		if err != nil {
			panic(err) // impossible
		}
		return z
	case "gzip":
		z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
		if err != nil {
			panic(err) // impossible
		}
		return z
	}
	return unpacked{w}
}

type unpacked struct{ io.Writer }

func (unpacked) Close() error { return nil }
