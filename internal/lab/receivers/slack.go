package receivers

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// A SlackMessage is a message as Slack has it now.
type SlackMessage struct {
	Channel, TS, Text string
	Blocks            json.RawMessage
	Edits             int
}

// Buttons returns the values of the message's buttons, by their actions.
func (m SlackMessage) Buttons() map[string]string {
	var blocks []struct {
		Elements []struct {
			Action string `json:"action_id"`
			Value  string `json:"value"`
			URL    string `json:"url"`
		} `json:"elements"`
	}
	out := map[string]string{}
	if json.Unmarshal(m.Blocks, &blocks) == nil {
		for _, b := range blocks {
			for _, e := range b.Elements {
				if e.Action != "" {
					out[e.Action] = e.Value + e.URL
				}
			}
		}
	}
	return out
}

// A SlackUser is who clicks. Team is the workspace of the app, and Home the user's own one if it
// only shares the channel. Name is what the payload says beside the ids.
type SlackUser struct{ Team, ID, Name, Home string }

// Slack is Slack's Web API and Socket Mode, as far as an app for decisions needs them.
type Slack struct {
	*HTTP
	bot, app string

	mu       sync.Mutex
	n        int
	messages []SlackMessage
	whispers map[string][]string // texts that only one user sees
	views    []json.RawMessage
	tickets  map[string]bool
	conns    []*socket
	acks     map[string]json.RawMessage
	refuse   bool
}

// A socket is one connection of Socket Mode.
type socket struct {
	*websocket.Conn
	mu     sync.Mutex // of writes
	silent chan struct{}
	over   chan struct{}
}

// NewSlack starts a Slack. bot and app are the tokens of an app.
func NewSlack(bot, app string) *Slack {
	s := &Slack{HTTP: &HTTP{}, bot: bot, app: app, whispers: map[string][]string{}, tickets: map[string]bool{}, acks: map[string]json.RawMessage{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/socket/{ticket}", s.connected)
	mux.Handle("/", s.takes(s.called))
	s.Server = httptest.NewServer(mux)
	return s
}

// Close ends all connections, too.
func (s *Slack) Close() {
	s.mu.Lock()
	for _, c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.Server.Close()
}

func (s *Slack) called(w http.ResponseWriter, g Got, x Fault) {
	w.Header().Set("Content-Type", "application/json")
	form := Form(g)
	say := func(v map[string]any) { _ = json.NewEncoder(w).Encode(v) }
	token := strings.TrimPrefix(g.Header.Get("Authorization"), "Bearer ")
	if token == "" {
		token = form.Get("token")
	}
	method := g.Path[strings.LastIndex(g.Path, "/")+1:]
	want := s.bot
	if method == "apps.connections.open" {
		want = s.app
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case x.Body != "":
		_, _ = io.WriteString(w, x.Body)
	case token != want:
		say(map[string]any{"ok": false, "error": "invalid_auth"})
	case method == "apps.connections.open" && s.refuse:
		say(map[string]any{"ok": false, "error": "internal_error"})
	case method == "apps.connections.open":
		s.n++
		ticket := fmt.Sprint("t", s.n)
		s.tickets[ticket] = true
		say(map[string]any{"ok": true, "url": "ws" + strings.TrimPrefix(s.URL, "http") + "/socket/" + ticket})
	case method == "chat.postMessage" && form.Get("channel") == "":
		say(map[string]any{"ok": false, "error": "channel_not_found"})
	case method == "chat.postMessage" && form.Get("text") == "":
		say(map[string]any{"ok": false, "error": "no_text"})
	case method == "chat.postMessage":
		s.n++
		m := SlackMessage{Channel: form.Get("channel"), TS: fmt.Sprintf("1700000000.%06d", s.n), Text: form.Get("text"), Blocks: json.RawMessage(form.Get("blocks"))}
		if m.Channel[0] == 'U' { // it opens a direct message
			m.Channel = "D" + m.Channel[1:]
		}
		s.messages = append(s.messages, m)
		say(map[string]any{"ok": true, "channel": m.Channel, "ts": m.TS, "message": map[string]any{"text": m.Text}})
	case method == "chat.update":
		i := slices.IndexFunc(s.messages, func(m SlackMessage) bool { return m.Channel == form.Get("channel") && m.TS == form.Get("ts") })
		if i < 0 {
			say(map[string]any{"ok": false, "error": "message_not_found"})
			return
		}
		m := &s.messages[i]
		m.Text, m.Blocks, m.Edits = form.Get("text"), json.RawMessage(form.Get("blocks")), m.Edits+1
		say(map[string]any{"ok": true, "channel": m.Channel, "ts": m.TS, "text": m.Text})
	case method == "chat.postEphemeral":
		s.whispers[form.Get("user")] = append(s.whispers[form.Get("user")], form.Get("text"))
		say(map[string]any{"ok": true, "message_ts": "1700000000.999999"})
	case method == "views.open":
		var in struct {
			Trigger string          `json:"trigger_id"`
			View    json.RawMessage `json:"view"`
		}
		if json.Unmarshal(g.Body, &in) != nil || in.Trigger == "" {
			say(map[string]any{"ok": false, "error": "invalid_arguments"})
			return
		}
		s.views = append(s.views, in.View)
		say(map[string]any{"ok": true, "view": map[string]any{"id": "V1"}})
	default:
		say(map[string]any{"ok": false, "error": "unknown_method"})
	}
}

// connected serves a connection. Slack begins with hello, and pings now and then.
func (s *Slack) connected(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	ok := s.tickets[r.PathValue("ticket")]
	delete(s.tickets, r.PathValue("ticket")) // it works once
	s.mu.Unlock()
	if !ok {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	ws, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer ws.Close()
	c := &socket{Conn: ws, silent: make(chan struct{}), over: make(chan struct{})}
	s.mu.Lock()
	s.conns = append(s.conns, c)
	s.mu.Unlock()
	defer func() {
		close(c.over)
		s.mu.Lock()
		s.conns = slices.DeleteFunc(s.conns, func(x *socket) bool { return x == c })
		s.mu.Unlock()
	}()
	if c.send(map[string]any{"type": "hello", "num_connections": 1, "connection_info": map[string]any{"app_id": "A0000000001"}, "debug_info": map[string]any{"host": "applink-1", "approximate_connection_time": 18060}}) != nil {
		return
	}
	go func() {
		tick := time.NewTicker(2 * time.Second)
		defer tick.Stop()
		for {
			c.mu.Lock()
			err := c.WriteControl(websocket.PingMessage, []byte("Ping from applink-1"), time.Now().Add(10*time.Second))
			c.mu.Unlock()
			if err != nil {
				return
			}
			select {
			case <-tick.C:
			case <-c.silent:
				return
			case <-c.over:
				return
			}
		}
	}()
	for {
		var ack struct {
			Envelope string          `json:"envelope_id"`
			Payload  json.RawMessage `json:"payload"`
		}
		if err := c.ReadJSON(&ack); err != nil {
			return
		}
		select {
		case <-c.silent: // it hears nothing either
		default:
			s.mu.Lock()
			s.acks[ack.Envelope] = ack.Payload
			s.mu.Unlock()
		}
	}
}

func (c *socket) send(v any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.WriteJSON(v)
}

// Messages returns all messages, the oldest first.
func (s *Slack) Messages() []SlackMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.messages)
}

// Whispers returns what only one user sees.
func (s *Slack) Whispers(user string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.whispers[user])
}

// Views returns the forms that were opened.
func (s *Slack) Views() []json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.views)
}

// Connections returns how many connections there are that are not silent.
func (s *Slack) Connections() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.alive())
}

func (s *Slack) alive() []*socket {
	return slices.DeleteFunc(slices.Clone(s.conns), func(c *socket) bool {
		select {
		case <-c.silent:
			return true
		default:
			return false
		}
	})
}

// Acked returns the answer to an envelope, if there is one.
func (s *Slack) Acked(envelope string) (json.RawMessage, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.acks[envelope]
	return p, ok
}

// Refuse says whether new connections are refused.
func (s *Slack) Refuse(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = yes
}

// Silence makes all connections dead without an end: nothing comes by them, and what is sent by them
// is lost.
func (s *Slack) Silence() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.alive() {
		close(c.silent)
	}
}

// Disconnect asks all connections for new ones, as Slack does every few hours.
func (s *Slack) Disconnect() {
	s.mu.Lock()
	all := s.alive()
	s.mu.Unlock()
	for _, c := range all {
		_ = c.send(map[string]any{"type": "disconnect", "reason": "refresh_requested", "debug_info": map[string]any{"host": "applink-1"}})
		c.Close()
	}
}

var errNobody = errors.New("no connection is there to take it")

// deliver gives an envelope to one of the connections, as Slack does.
func (s *Slack) deliver(kind string, payload map[string]any) (envelope string, err error) {
	s.mu.Lock()
	s.n++
	envelope = fmt.Sprintf("env-%06d", s.n)
	all := s.alive()
	pick := s.n
	s.mu.Unlock()
	if len(all) == 0 {
		return "", errNobody
	}
	return envelope, all[pick%len(all)].send(map[string]any{"type": kind, "envelope_id": envelope, "accepts_response_payload": true, "payload": payload})
}

func (s *Slack) from(kind string, u SlackUser) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	return map[string]any{
		"type": kind, "api_app_id": "A0000000001", "token": "legacy", "trigger_id": fmt.Sprintf("%d.%d.abc", s.n, s.n),
		"team": map[string]any{"id": u.Team, "domain": "example"},
		"user": map[string]any{"id": u.ID, "username": u.Name, "name": u.Name, "team_id": cmp.Or(u.Home, u.Team)},
	}
}

// Click presses a button of a message. The value is the message's, unless another one is given.
func (s *Slack) Click(u SlackUser, m SlackMessage, action string, value ...string) (envelope string, err error) {
	v := m.Buttons()[action]
	if len(value) > 0 {
		v = value[0]
	}
	p := s.from("block_actions", u)
	p["container"] = map[string]any{"type": "message", "message_ts": m.TS, "channel_id": m.Channel, "is_ephemeral": false}
	p["channel"] = map[string]any{"id": m.Channel, "name": "directmessage"}
	message := map[string]any{"type": "message", "ts": m.TS, "text": m.Text}
	if len(m.Blocks) > 0 {
		message["blocks"] = m.Blocks
	}
	p["message"] = message
	p["response_url"] = "https://hooks.slack.com/actions/unused"
	p["actions"] = []any{map[string]any{"action_id": action, "block_id": "fairlead", "type": "button", "value": v, "action_ts": "1700000001.000000", "text": map[string]any{"type": "plain_text", "text": "x"}}}
	return s.deliver("interactive", p)
}

// Submit sends a form that was opened, with the text of its one field.
func (s *Slack) Submit(u SlackUser, view json.RawMessage, text string) (envelope string, err error) {
	var v struct {
		Callback string `json:"callback_id"`
		Meta     string `json:"private_metadata"`
		Blocks   []struct {
			ID      string `json:"block_id"`
			Element struct {
				Action string `json:"action_id"`
			} `json:"element"`
		} `json:"blocks"`
	}
	if err := json.Unmarshal(view, &v); err != nil || len(v.Blocks) != 1 {
		return "", fmt.Errorf("the form is %s (%v)", view, err)
	}
	p := s.from("view_submission", u)
	p["view"] = map[string]any{"id": "V1", "type": "modal", "callback_id": v.Callback, "private_metadata": v.Meta,
		"state": map[string]any{"values": map[string]any{v.Blocks[0].ID: map[string]any{v.Blocks[0].Element.Action: map[string]any{"type": "plain_text_input", "value": text}}}}}
	return s.deliver("interactive", p)
}

// Command sends a slash command.
func (s *Slack) Command(u SlackUser, text string) (envelope string, err error) {
	return s.deliver("slash_commands", map[string]any{"token": "legacy", "team_id": u.Team, "team_domain": "example", "channel_id": "D" + strings.TrimPrefix(u.ID, "U"), "channel_name": "directmessage",
		"user_id": u.ID, "user_name": u.Name, "command": "/fairlead", "text": text, "api_app_id": "A0000000001", "response_url": "https://hooks.slack.com/commands/unused", "trigger_id": "1.1.abc"})
}
