package inventory

import (
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
)

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

var (
	rangePattern = regexp.MustCompile(`\[([0-9]*|[A-Za-z]):([0-9]+|[A-Za-z])(?::([0-9]+))?\]`)
	portPattern  = regexp.MustCompile(`^(.*):([0-9]+)$`)
)

// expand returns the names of a pattern such as web[01:10].example.org, and the port
// if the pattern ends with one.
func expand(pattern string) (names []string, port int, err error) {
	body := pattern
	switch m := portPattern.FindStringSubmatch(pattern); {
	case net.ParseIP(pattern) != nil: // an IPv6 address without a port
	case m != nil:
		body = m[1]
		if port, err = strconv.Atoi(m[2]); err != nil || port < 1 || port > 65535 {
			return nil, 0, fmt.Errorf("%q: the port is not a number from 1 to 65535", cut(pattern))
		}
	}
	if ip := strings.TrimSuffix(strings.TrimPrefix(body, "["), "]"); net.ParseIP(ip) != nil {
		return []string{ip}, port, nil
	}
	names = []string{""}
	for body != "" {
		at := rangePattern.FindStringSubmatchIndex(body)
		head, parts := body, []string{""}
		if at != nil {
			head = body[:at[0]]
			m := rangePattern.FindStringSubmatch(body)
			if parts, err = steps(m[0], m[1], m[2], m[3]); err != nil {
				return nil, 0, err
			}
			body = body[at[1]:]
		} else {
			body = ""
		}
		if strings.ContainsAny(head, "[]") {
			return nil, 0, fmt.Errorf("%q has a range that is none: such as [01:10], [1:10:2] or [a:f]", cut(pattern))
		}
		if len(names)*len(parts) > MaxHosts {
			return nil, 0, fmt.Errorf("%q are more than %d hosts", cut(pattern), MaxHosts)
		}
		var next []string
		for _, n := range names {
			for _, p := range parts {
				next = append(next, n+head+p)
			}
		}
		names = next
	}
	if names[0] == "" {
		return nil, 0, fmt.Errorf("%q names no host", cut(pattern))
	}
	return names, port, nil
}

// steps returns the parts that one range expands to.
func steps(text, from, to, by string) ([]string, error) {
	step := 1
	if by != "" {
		var err error
		if step, err = strconv.Atoi(by); err != nil || step < 1 {
			return nil, fmt.Errorf("range %s: a step is at least 1", cut(text))
		}
	}
	first, last := strings.Index(letters, from), strings.Index(letters, to)
	write := func(n int) string { return letters[n : n+1] }
	if from == "" || first < 0 || last < 0 {
		if from == "" {
			from = "0"
		}
		var err1, err2 error
		first, err1 = strconv.Atoi(from)
		last, err2 = strconv.Atoi(to)
		if err1 != nil || err2 != nil {
			return nil, fmt.Errorf("range %s: both ends are numbers, or both are letters", cut(text))
		}
		width := 0
		if len(from) > 1 && from[0] == '0' {
			if width = len(from); width != len(to) {
				return nil, fmt.Errorf("range %s: with zeros before them, both ends have as many digits", cut(text))
			}
		}
		write = func(n int) string { return fmt.Sprintf("%0*d", width, n) }
	}
	if first > last {
		return nil, fmt.Errorf("range %s: it ends before it begins", cut(text))
	}
	if (last-first)/step >= MaxHosts {
		return nil, fmt.Errorf("range %s: that are more than %d hosts", cut(text), MaxHosts)
	}
	var out []string
	for n := first; n <= last; n += step {
		out = append(out, write(n))
		if n > last-step {
			break
		}
	}
	return out, nil
}
