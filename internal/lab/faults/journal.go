package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
)

// A journal is what one incarnation of codex wrote. It is parsed here without
// any code of the pump.
type journal struct {
	// told is what the transcript must show, in order.
	told []told
	// may holds the offsets of lines that may appear in the transcript, or not.
	may map[int64]bool
	// asked counts, for each of codex's requests by id, how often it was
	// resolved.
	asked map[string]int
	// turns maps a turn's id to the status with which it ended.
	turns map[string]string
	// heard counts our messages that codex echoed, by our id.
	heard map[string]int
	// answers counts the responses to our requests, by id.
	answers map[string]int
}

// told is one thing that codex said.
type told struct {
	at   int64 // byte offset of its line
	kind string
	item string
	text string
	any  bool // text is not compared
}

type wireLine struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// scan parses a journal. What follows the last newline is a torn line.
func scan(data []byte) journal {
	j := journal{may: map[int64]bool{}, asked: map[string]int{}, turns: map[string]string{}, heard: map[string]int{}, answers: map[string]int{}}
	at := int64(0)
	for len(data) > 0 {
		n := bytes.IndexByte(data, '\n')
		if n < 0 {
			break
		}
		j.line(at, data[:n])
		at += int64(n) + 1
		data = data[n+1:]
	}
	return j
}

func (j *journal) line(at int64, line []byte) {
	var w wireLine
	if json.Unmarshal(line, &w) != nil {
		j.may[at] = true // stray lines are reported
		return
	}
	id := string(bytes.TrimSpace(w.ID))
	switch {
	case w.Method == "" && id != "":
		j.answers[id]++
		j.may[at] = true
	case id != "" && strings.HasSuffix(w.Method, "/requestApproval"):
		if _, again := j.asked[id]; !again {
			j.asked[id] = 0
			j.told = append(j.told, told{at: at, kind: "request", any: true})
		}
	case w.Method == "serverRequest/resolved":
		var p struct {
			RequestID json.RawMessage `json:"requestId"`
		}
		_ = json.Unmarshal(w.Params, &p) // one without an id matches no request
		j.asked[string(bytes.TrimSpace(p.RequestID))]++
	case w.Method == "item/completed":
		j.item(at, w.Params)
	case w.Method == "turn/completed":
		var p struct {
			Turn struct{ ID, Status string } `json:"turn"`
		}
		_ = json.Unmarshal(w.Params, &p)
		j.turns[p.Turn.ID] = p.Turn.Status
		j.told = append(j.told, told{at: at, kind: "state", text: "turn " + p.Turn.Status})
	case w.Method == "error":
		j.told = append(j.told, told{at: at, kind: "error", any: true})
	default:
		j.may[at] = w.Method == "warning" || w.Method == "configWarning" || w.Method == "guardianWarning"
	}
}

func (j *journal) item(at int64, params []byte) {
	var p struct {
		Item struct {
			ID, Type, Text   string
			ClientID         string   `json:"clientId"`
			AggregatedOutput string   `json:"aggregatedOutput"`
			Summary          []string `json:"summary"`
			Content          []struct{ Text string }
		} `json:"item"`
	}
	if err := json.Unmarshal(params, &p); err != nil {
		var strange *json.UnmarshalTypeError // content has other shapes too
		if !errors.As(err, &strange) {
			return
		}
	}
	t := told{at: at, item: p.Item.ID, text: p.Item.Text}
	switch p.Item.Type {
	case "userMessage":
		t.kind = "user"
		var texts []string
		for _, c := range p.Item.Content {
			texts = append(texts, c.Text)
		}
		t.text = strings.Join(texts, "\n")
		if p.Item.ClientID != "" {
			j.heard[p.Item.ClientID]++
		}
	case "agentMessage":
		t.kind = "assistant"
	case "commandExecution":
		t.kind, t.text = "command", p.Item.AggregatedOutput
	case "reasoning":
		if len(p.Item.Summary) == 0 {
			j.may[at] = true
			return
		}
		t.kind, t.any = "reasoning", true
	case "fileChange":
		t.kind, t.any = "file_change", true
	default:
		t.kind, t.any = "", true
	}
	j.told = append(j.told, t)
}

// readJournals reads the journals of every incarnation that the host has.
func (r *run) readJournals() (map[int][]byte, error) {
	out := map[int][]byte{}
	for n := 1; n <= r.newest(); n++ {
		data, err := os.ReadFile(r.proc(n) + "/out.log")
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return out, err
		}
		if bytes.IndexByte(data, 0) >= 0 {
			return out, fmt.Errorf("the journal of incarnation %d has holes: there is nothing to judge by", n)
		}
		out[n] = data
	}
	return out, nil
}
