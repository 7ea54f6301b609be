package conversation

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"fairlead.dev/fairlead/internal/protocol"
)

// Sub-agents are threads that codex begins for other threads. The item of the tool that
// began one names both threads. Measured on 0.125 to 0.169 with the tools of the first kind
// (spawn_agent and wait_agent): no thread/started names them.

const (
	// maxAgents bounds the sub-agents that are known; the oldest are forgotten.
	maxAgents    = 32
	maxAgentName = 60
	// maxAgentDepth bounds the chain of sub-agents in an entry.
	maxAgentDepth = 8
)

// An AgentThread is a sub-agent. N is its number in the session.
type AgentThread struct {
	N      int    `json:"n"`
	Thread string `json:"thread"`
	Name   string `json:"name,omitempty"`
	// Parent is the thread that began it; empty if that is the session's or not known.
	Parent string `json:"parent,omitempty"`
}

// seeAgent notes a sub-agent. An empty parent or name changes nothing.
func (s *PumpState) seeAgent(thread, parent, name string) *AgentThread {
	if parent == s.ThreadID || parent == thread {
		parent = ""
	}
	i := slices.IndexFunc(s.Agents, func(a AgentThread) bool { return a.Thread == thread })
	if i < 0 {
		n := 1
		if len(s.Agents) > 0 {
			n = s.Agents[len(s.Agents)-1].N + 1
		}
		s.Agents = append(s.Agents, AgentThread{N: n, Thread: thread})
		if len(s.Agents) > maxAgents {
			s.Agents = slices.Clone(s.Agents[1:])
		}
		i = len(s.Agents) - 1
	}
	a := &s.Agents[i]
	a.Parent, a.Name = orWord(a.Parent, parent), orWord(name, a.Name)
	return a
}

// agent returns a sub-agent for an entry. It notes one that it does not know.
func (s *PumpState) agent(thread string) *protocol.Agent { return s.agentWithin(thread, maxAgentDepth) }

// agentOf is like agent. It returns nil for the session's own thread, which is "".
func (s *PumpState) agentOf(thread string) *protocol.Agent {
	if thread == "" {
		return nil
	}
	return s.agent(thread)
}

func (s *PumpState) agentWithin(thread string, depth int) *protocol.Agent {
	known := *s.seeAgent(thread, "", "")
	a := &protocol.Agent{Thread: thread, Name: orWord(known.Name, fmt.Sprintf("agent %d", known.N))}
	if known.Parent != "" && depth > 1 {
		a.Of = s.agentWithin(known.Parent, depth-1)
	}
	return a
}

// agentItem is what items about sub-agents have beside the members of wire.Item.
type agentItem struct {
	Item struct {
		Sender    string   `json:"senderThreadId"`
		Receivers []string `json:"receiverThreadIds"`
		Prompt    string   `json:"prompt"`
		States    map[string]struct {
			Status  string `json:"status"`
			Message string `json:"message"`
		} `json:"agentsStates"`
		Thread string `json:"agentThreadId"`
		Path   string `json:"agentPath"`
		Kind   string `json:"kind"`
	} `json:"item"`
}

// agentTool completes the entry of a call of a tool for sub-agents.
func (t *turns) agentTool(e *protocol.Entry, p json.RawMessage) {
	var in agentItem
	if json.Unmarshal(p, &in) != nil {
		return
	}
	it := in.Item
	if len(it.Receivers) > maxAgents {
		it.Receivers = it.Receivers[:maxAgents]
	}
	for _, r := range it.Receivers {
		if r != "" && r != t.st.ThreadID {
			t.st.seeAgent(r, it.Sender, "")
		}
	}
	args := map[string]any{}
	if it.Prompt != "" {
		args["prompt"] = it.Prompt
	}
	if len(it.Receivers) > 0 {
		args["agents"] = it.Receivers
	}
	setData(e, "arguments", string(canonical(args)))
	setData(e, "agents", strings.Join(it.Receivers, " "))
	var lines []string
	for _, thread := range slices.Sorted(maps.Keys(it.States)) {
		s := it.States[thread]
		name := "the session"
		if thread != t.st.ThreadID {
			name = t.st.agent(thread).Name
		}
		line := name + ": " + s.Status
		if s.Message != "" {
			line += ": " + s.Message
		}
		lines = append(lines, line)
		if len(lines) == maxAgents {
			break
		}
	}
	e.Text = strings.Join(lines, "\n")
}

// agentActivity completes the entry of an item that tells what a sub-agent does.
func (t *turns) agentActivity(e *protocol.Entry, p json.RawMessage, of string) {
	var in agentItem
	if json.Unmarshal(p, &in) != nil || in.Item.Thread == "" || in.Item.Thread == t.st.ThreadID {
		return
	}
	name := in.Item.Path
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		name = name[i+1:]
	}
	t.st.seeAgent(in.Item.Thread, of, t.cut(name, maxAgentName))
	e.Text = t.st.agent(in.Item.Thread).Name + ": " + in.Item.Kind
	setData(e, "agents", in.Item.Thread)
}
