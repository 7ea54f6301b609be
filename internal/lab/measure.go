package lab

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
)

// Resident returns the memory of a process that is in RAM, in bytes; 0 if it has ended.
func Resident(pid int) int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(data))
	if len(f) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(f[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// Scrape returns the metrics of a worker, by name with labels. address is that of its metrics.
func Scrape(ctx context.Context, address string) (map[string]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	m := map[string]float64{}
	for s := bufio.NewScanner(resp.Body); s.Scan(); {
		name, value, ok := strings.Cut(s.Text(), "} ")
		if ok {
			name += "}"
		} else if name, value, ok = strings.Cut(s.Text(), " "); !ok {
			continue
		}
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			m[name] = v
		}
	}
	return m, nil
}

// CachedGoroutines counts the goroutines of the SDK's workflow cache in a worker, whose
// metrics must include pprof.
func CachedGoroutines(ctx context.Context, address string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/debug/pprof/goroutine?debug=1", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	n := 0
	_, stacks, _ := strings.Cut(string(text), "\n") // after the total
	for _, stack := range strings.Split(stacks, "\n\n") {
		count, _, ok := strings.Cut(stack, " @ ")
		if !ok || !strings.Contains(stack, "internal.(*coroutineState)") {
			continue
		}
		k, err := strconv.Atoi(strings.TrimSpace(count))
		if err != nil {
			return 0, fmt.Errorf("goroutines of the worker: %w", err)
		}
		n += k
	}
	return n, nil
}

// FreeAddress returns an address of the loopback interface that nothing listens on.
func FreeAddress() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
}
