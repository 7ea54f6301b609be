package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// asGateEnd is the environment variable that makes this program one end of the measurement of
// the model gateway: the provider, or those who ask. It has processes of its own, so that the
// memory of the gateway is that of this process. All of them share one clock.
const asGateEnd = "FAIRLEAD_BENCH_GATEWAY"

// A gateTask is what an end does.
type gateTask struct {
	Listen string    // the provider's address
	Asks   []gateAsk // one after another, or all at the same time
	Crowd  bool
	Times  int
	Events int           // of an answer
	Pause  time.Duration // between them
	Body   int           // bytes of a request
}

type gateAsk struct{ URL, Token string }

// gateSeen is what those who asked saw.
type gateSeen struct {
	First, Late series // to the first event; of each event since the provider wrote it
	Err         string
}

func beGateEnd(ctx context.Context) error {
	var t gateTask
	in := json.NewDecoder(os.Stdin)
	if err := in.Decode(&t); err != nil {
		return err
	}
	if t.Listen != "" {
		l, err := net.Listen("tcp", t.Listen)
		if err != nil {
			return err
		}
		fmt.Println(l.Addr())
		s := &http.Server{Handler: http.HandlerFunc(provide)}
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin) // until the parent has ended
			s.Close()
		}()
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}
	return json.NewEncoder(os.Stdout).Encode(askAll(ctx, t))
}

// provide streams as many events as the request asks for. Each text is the time.
func provide(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Events int           `json:"events"`
		Pause  time.Duration `json:"pause"`
	}
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	to := http.NewResponseController(w)
	say := func(kind, rest string) {
		fmt.Fprintf(w, "event: %s\ndata: {\"type\":%q,%s}\n\n", kind, kind, rest)
		_ = to.Flush() // the client may be gone, as the next write says
	}
	say("response.created", `"response":{"id":"r","object":"response","status":"in_progress"}`)
	next := time.NewTicker(max(ask.Pause, time.Microsecond))
	defer next.Stop()
	for range ask.Events {
		select {
		case <-next.C:
		case <-r.Context().Done():
			return
		}
		say("response.output_text.delta", fmt.Sprintf(`"item_id":"m","output_index":0,"content_index":0,"delta":"%d"`, time.Now().UnixNano()))
	}
	say("response.completed", `"response":{"id":"r","object":"response","status":"completed","usage":{"input_tokens":1,"output_tokens":1},"output":[{"type":"message","id":"m","role":"assistant","status":"completed","content":[]}]}`)
}

func askAll(ctx context.Context, t gateTask) (all gateSeen) {
	if !t.Crowd {
		client := &http.Client{Transport: &http.Transport{}}
		for range t.Times {
			for _, a := range t.Asks {
				one := askOnce(ctx, client, t, a)
				all.First, all.Late = append(all.First, one.First...), append(all.Late, one.Late...)
				if one.Err != "" {
					all.Err = one.Err
					return all
				}
			}
		}
		return all
	}
	var mu sync.Mutex
	var g sync.WaitGroup
	for i, a := range t.Asks {
		g.Go(func() {
			// They begin within as many seconds as there are hundreds of them.
			time.Sleep(time.Duration(i) * 10 * time.Millisecond)
			one := askOnce(ctx, &http.Client{Transport: &http.Transport{}}, t, a)
			mu.Lock()
			defer mu.Unlock()
			all.First, all.Late = append(all.First, one.First...), append(all.Late, one.Late...)
			if one.Err != "" {
				all.Err = one.Err
			}
		})
	}
	g.Wait()
	return all
}

// askOnce asks and reads the whole answer, as codex does.
func askOnce(ctx context.Context, client *http.Client, t gateTask, a gateAsk) (seen gateSeen) {
	fail := func(err error) gateSeen {
		seen.Err = err.Error()
		return seen
	}
	body, err := json.Marshal(map[string]any{"model": "m", "stream": true, "events": t.Events, "pause": t.Pause, "input": strings.Repeat("word ", t.Body/5)})
	if err != nil {
		return fail(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.URL+"/responses", bytes.NewReader(body))
	if err != nil {
		return fail(err)
	}
	req.Header.Set("Authorization", "Bearer "+a.Token)
	begin := time.Now()
	res, err := client.Do(req)
	if err != nil {
		return fail(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10))
		return fail(fmt.Errorf("%s: %s", res.Status, text))
	}
	deltas := 0
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		now := time.Now()
		if len(seen.First) == 0 {
			seen.First = series{now.Sub(begin)}
		}
		if _, rest, ok := strings.Cut(data, `"delta":"`); ok {
			at, _, _ := strings.Cut(rest, `"`)
			if ns, err := strconv.ParseInt(at, 10, 64); err == nil {
				deltas++
				seen.Late = append(seen.Late, now.Sub(time.Unix(0, ns)))
			}
		}
	}
	if deltas != t.Events {
		return fail(fmt.Errorf("%d of %d events came", deltas, t.Events))
	}
	return seen
}

// gateEnd starts an end; there, if set, makes the command.
func gateEnd(ctx context.Context, t gateTask, there func(context.Context, string, ...string) *exec.Cmd) (*exec.Cmd, io.ReadCloser, io.WriteCloser, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, nil, err
	}
	if there == nil {
		there = exec.CommandContext
	}
	cmd := there(ctx, self)
	cmd.Env = append(os.Environ(), asGateEnd+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, nil, err
	}
	return cmd, out, in, json.NewEncoder(in).Encode(t)
}

// ask has another process ask, and returns what it saw.
func ask(ctx context.Context, t gateTask, there func(context.Context, string, ...string) *exec.Cmd) (seen gateSeen, err error) {
	cmd, out, in, err := gateEnd(ctx, t, there)
	if err != nil {
		return seen, err
	}
	err = json.NewDecoder(out).Decode(&seen)
	err = errors.Join(err, in.Close(), cmd.Wait())
	if err == nil && seen.Err != "" {
		err = errors.New(seen.Err)
	}
	return seen, err
}

// provider starts a provider and returns its base URL.
func provider(ctx context.Context, listen string) (base string, stop func() error, err error) {
	cmd, out, in, err := gateEnd(ctx, gateTask{Listen: listen}, nil)
	if err != nil {
		return "", nil, err
	}
	stop = func() error { return errors.Join(in.Close(), cmd.Wait()) }
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("the provider did not start: %w", err), stop())
	}
	return "http://" + strings.TrimSpace(line) + "/v1", stop, nil
}
