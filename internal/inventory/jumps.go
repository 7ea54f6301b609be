package inventory

import (
	"net"
	"slices"
	"strconv"
	"strings"
)

func (r *reader) resolve() {
	byName := map[string]int{}
	for i := range r.hosts {
		byName[r.hosts[i].Name] = i
	}
	hops := make([][]string, len(r.hosts))
	for i := range r.hosts {
		h := &r.hosts[i]
		if h.via == "" || strings.EqualFold(h.via, "none") {
			continue
		}
		for _, hop := range strings.Split(h.via, ",") {
			name := r.hop(h, strings.TrimSpace(hop), byName)
			if name == "" {
				hops[i] = nil
				break
			}
			hops[i] = append(hops[i], name)
		}
		if n := len(hops[i]); n > 0 {
			h.Jump = hops[i][n-1]
		}
	}
	for i := range r.hosts {
		for n := 1; n < len(hops[i]); n++ {
			h, over := &r.hosts[i], hops[i][n]
			if k, there := byName[over]; !there || r.hosts[k].Jump != hops[i][n-1] {
				r.of(h.written, h.At("jump"), "host %s jumps over %s through %s: this file must also have host %s, with %s as its jump host", h.Name, over, hops[i][n-1], over, hops[i][n-1])
			}
		}
	}
	r.order(byName)
}

// hop returns the name of the host to which an element of ProxyJump refers, or "".
func (r *reader) hop(h *Host, text string, byName map[string]int) string {
	login, address, port, ok := splitTarget(text)
	if !ok {
		r.of(h.written, h.At("jump"), "host %s: %q is not a host to jump over", cut(h.written), cut(text))
		return ""
	}
	name := strings.ToLower(address)
	same := func(o *Host) bool {
		return (login == "" || login == o.User) && (port == 0 || port == orSSH(o.Port))
	}
	if i, there := byName[name]; there && same(&r.hosts[i]) {
		return name
	}
	for i := range r.hosts {
		if o := &r.hosts[i]; o.Address == address && same(o) {
			return o.Name
		}
	}
	if login == "" && port == 0 && namePattern.MatchString(name) {
		return name // the zone's inventory may have that host
	}
	r.of(h.written, h.At("jump"), "host %s jumps over %s, which is not a host of this file: a jump host is a host like others, with a key of its own that is pinned", cut(h.written), cut(text))
	return ""
}

// splitTarget parses [ssh://][USER@]ADDRESS[:PORT].
func splitTarget(s string) (login, address string, port int, ok bool) {
	s = strings.TrimSuffix(strings.TrimPrefix(s, "ssh://"), "/")
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		login, s = s[:i], s[i+1:]
	}
	address = s
	if strings.HasPrefix(s, "[") || strings.Count(s, ":") == 1 {
		host, p, err := net.SplitHostPort(s)
		switch n, perr := strconv.Atoi(p); {
		case err != nil && strings.HasSuffix(s, "]"):
			address = s[1 : len(s)-1]
		case err != nil || perr != nil || n < 1 || n > 65535:
			return "", "", 0, false
		default:
			address, port = host, n
		}
	}
	return login, address, port, address != ""
}

func orSSH(port int) int {
	if port == 0 {
		return 22
	}
	return port
}

// order puts jump hosts first, and reports cycles.
func (r *reader) order(byName map[string]int) {
	const (
		onTheWay = 1
		done     = 2
	)
	state := make([]int, len(r.hosts))
	var out []Host
	for start := range r.hosts {
		var way []int
		for i := start; state[i] != done; {
			if state[i] == onTheWay {
				circle := way[slices.Index(way, i):]
				var names []string
				for _, k := range append(slices.Clone(circle), i) {
					names = append(names, r.hosts[k].Name)
				}
				h := &r.hosts[i]
				r.of(h.written, h.At("jump"), "hosts jump over each other in a circle: %s", strings.Join(names, " over "))
				break
			}
			state[i] = onTheWay
			way = append(way, i)
			next, there := byName[r.hosts[i].Jump]
			if r.hosts[i].Jump == "" || !there {
				break
			}
			i = next
		}
		for _, i := range slices.Backward(way) {
			if state[i] != done {
				state[i] = done
				out = append(out, r.hosts[i])
			}
		}
	}
	r.hosts = out
}
