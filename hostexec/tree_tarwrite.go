package hostexec

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"time"
)

// A treeTar writes an archive that GNU and busybox tar both understand: long
// names as GNU has them, fractions of seconds as POSIX has them, which busybox
// skips.
type treeTar struct{ out *bufio.Writer }

func (t treeTar) header(e TreeEntry, kind byte, size int64) error {
	name := "./" + e.Path
	if e.Path == "." {
		name = "./"
	} else if kind == tarFolder {
		name += "/"
	}
	if ns := e.MTime.Nanosecond(); ns != 0 {
		record := paxRecord("mtime", paxTime(e.MTime))
		if err := t.extra('x', record); err != nil {
			return err
		}
	}
	if kind != tarSymlink && kind != tarLink {
		e.Link = ""
	}
	if len(e.Link) > 100 {
		if err := t.extra(tarLongLink, e.Link+"\x00"); err != nil {
			return err
		}
	}
	if len(name) > 100 {
		if err := t.extra(tarLongName, name+"\x00"); err != nil {
			return err
		}
	}
	return t.block(name, e.Link, kind, e.Mode, size, e.MTime.Unix())
}

// extra writes what does not fit in a header.
func (t treeTar) extra(kind byte, text string) error {
	name := "././@LongLink"
	if kind == 'x' {
		name = "./PaxHeaders/x"
	}
	if err := t.block(name, "", kind, 0o644, int64(len(text)), 0); err != nil {
		return err
	}
	if _, err := t.out.WriteString(text); err != nil {
		return err
	}
	return t.zeros(-int64(len(text)) & (tarBlock - 1))
}

func (t treeTar) block(name, link string, kind byte, mode uint32, size, mtime int64) error {
	var b [tarBlock]byte
	copy(b[:100], name)
	putTarNumber(b[100:108], int64(mode))
	putTarNumber(b[108:116], 0)
	putTarNumber(b[116:124], 0)
	putTarNumber(b[124:136], size)
	putTarNumber(b[136:148], mtime)
	copy(b[148:156], "        ")
	b[156] = kind
	copy(b[157:257], link)
	copy(b[257:265], "ustar  \x00")
	if kind == 'x' {
		copy(b[257:265], "ustar\x0000")
	}
	sum := int64(0)
	for _, c := range b {
		sum += int64(c)
	}
	copy(b[148:156], fmt.Sprintf("%06o\x00 ", sum))
	_, err := t.out.Write(b[:])
	return err
}

// putTarNumber writes octal digits, or a big number as GNU does.
func putTarNumber(b []byte, n int64) {
	if n >= 0 && n < 1<<(3*(len(b)-1)) {
		copy(b, fmt.Sprintf("%0*o", len(b)-1, n))
		return
	}
	if n < 0 {
		for i := range b {
			b[i] = 0xff
		}
	} else {
		b[0] = 0x80
	}
	binary.BigEndian.PutUint64(b[len(b)-8:], uint64(n))
}

func (t treeTar) zeros(n int64) error {
	for n > 0 {
		k, err := t.out.Write(zeros[:min(n, int64(len(zeros)))])
		if err != nil {
			return err
		}
		n -= int64(k)
	}
	return nil
}

// end ends the archive.
func (t treeTar) end() error {
	if err := t.zeros(2 * tarBlock); err != nil {
		return err
	}
	return t.out.Flush()
}

// paxRecord is "length key=value", where length counts itself.
func paxRecord(key, value string) string {
	n := len(key) + len(value) + 3 // space, equals sign, newline
	for size := n + 1; ; size++ {
		if r := fmt.Sprintf("%d %s=%s\n", size, key, value); len(r) == size {
			return r
		}
	}
}

func paxTime(t time.Time) string {
	sec, ns := t.Unix(), t.Nanosecond()
	if sec < 0 && ns > 0 {
		sec, ns = -sec-1, 1e9-ns
		return fmt.Sprintf("-%d.%09d", sec, ns)
	}
	return fmt.Sprintf("%d.%09d", sec, ns)
}
