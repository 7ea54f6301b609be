package lab

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// InMemory reports whether the memory of a process has a text, in whatever part of it.
func InMemory(pid int, text string) (found bool, err error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return false, err
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, mem.Close()) }()
	buf := make([]byte, 1<<20)
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		var mode string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &mode); err != nil || !strings.HasPrefix(mode, "r") {
			continue
		}
		var kept []byte
		for at := from; at < to; {
			n, err := mem.ReadAt(buf[:min(int64(len(buf)), to-at)], at)
			if n == 0 || err != nil && err != io.EOF {
				break // such as [vvar]
			}
			kept = append(kept, buf[:n]...)
			if bytes.Contains(kept, []byte(text)) {
				return true, nil
			}
			kept = bytes.Clone(kept[max(0, len(kept)-len(text)):])
			at += int64(n)
		}
	}
	return false, nil
}
