package hostexec

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// treePackScript lets a script's output be compressed where the way is long
// ($FAIRLEAD_FAR, see Command.TellFar): there what travels takes the time, and
// here it is the processors that everybody shares. One line says how.
//
// send is given words that print the rest. A status of theirs that matters is
// to be part of what they print.
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

// unpackTree reads what send sends.
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
		// Close waits for what still reads, which ends with the channel: after us.
		return bufio.NewReaderSize(z, size), func() { go z.Close() }, nil
	case "packed gzip\n":
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, nil, err
		}
		return bufio.NewReaderSize(z, size), func() {}, nil
	}
	return nil, nil, fmt.Errorf("%w: it begins with %.200q", errGarbled, line)
}
