package tree

import (
	"bufio"
	"encoding/binary"
	"strconv"
	"time"
)

// A treeTar writes an archive for GNU and busybox tar. Long names are in GNU format.
// Fractions of seconds are in POSIX format, which busybox ignores.
type treeTar struct{ out *bufio.Writer }

func (t treeTar) header(e Entry, kind byte, size int64) error {
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
	putTarNumber(b[148:155], sum)
	_, err := t.out.Write(b[:])
	return err
}

func putTarNumber(b []byte, n int64) {
	if n >= 0 && n < 1<<(3*(len(b)-1)) {
		for i := len(b) - 2; i >= 0; i-- {
			b[i] = '0' + byte(n&7)
			n >>= 3
		}
		b[len(b)-1] = 0
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

func (t treeTar) end() error {
	if err := t.zeros(2 * tarBlock); err != nil {
		return err
	}
	return t.out.Flush()
}

// paxRecord returns "length key=value", where length includes itself.
func paxRecord(key, value string) string {
	rest := " " + key + "=" + value + "\n"
	for size := len(rest) + 1; ; size++ {
		if n := strconv.Itoa(size); len(n)+len(rest) == size {
			return n + rest
		}
	}
}

// paxTime returns seconds with a fraction. A minus sign applies to both.
func paxTime(t time.Time) string {
	sec, ns := t.Unix(), t.Nanosecond()
	sign := ""
	if sec < 0 && ns > 0 {
		sign, sec, ns = "-", -sec-1, 1e9-ns
	}
	fraction := strconv.Itoa(1e9 + ns) // the digit 1 and the fraction
	return sign + strconv.FormatInt(sec, 10) + "." + fraction[1:]
}
