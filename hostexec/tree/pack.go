package tree

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"

	"fairlead.dev/fairlead/hostexec/internal/script"
	"github.com/klauspost/compress/zstd"
)

// treePackScript compresses a script's output if the host is far away ($FAIRLEAD_FAR, see
// Command.TellFar). There the transfer takes the time; nearby, compression would only cost
// processor time, which everybody shares. The first line names the compression.
//
// send gets a command that prints the rest. If the status of that command matters, it must
// be part of the output.
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

func unpackTree(r io.Reader, size int) (*bufio.Reader, func(), error) {
	in := bufio.NewReaderSize(r, size)
	line, err := in.ReadString('\n')
	if err != nil {
		return nil, nil, err
	}
	switch line {
	case "packed \n":
		return in, func() {}, nil
	case "packed zstd\n":
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxWindow(16<<20))
		if err != nil {
			return nil, nil, err
		}
		// Close waits for pending reads, which end only with the channel, after this call.
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

// treeTakeScript decompresses a script's input if the host is far away, as treePackScript
// compresses output. It sets how to "plain", "zstd" or "gzip".
//
// take gets a command that reads the input. It fails if the command fails, or if the input
// is cut off or damaged, which the command may not notice.
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

// packTo returns a writer that compresses to w as a script expects: "zstd", "gzip",
// otherwise uncompressed. Equal input gives equal output. Close does not close w. If ahead
// is set, compression and writes to w run concurrently with further writes.
func packTo(how string, w io.Writer, ahead bool) io.WriteCloser {
	concurrency := 1
	if ahead {
		concurrency = 2
	}
	switch how {
	case "zstd":
		z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(concurrency), zstd.WithWindowSize(1<<20))
		if err != nil {
			panic(err) // the options are wrong
		}
		return z
	case "gzip":
		z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
		if err != nil {
			panic(err) // the level is wrong
		}
		return z
	}
	return unpacked{w}
}

type unpacked struct{ io.Writer }

func (unpacked) Close() error { return nil }
