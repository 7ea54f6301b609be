package inbox

import (
	"context"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/term"
	"fairlead.dev/fairlead/internal/api"
)

// Bounds of what an inbox keeps.
const (
	lookEvery  = time.Second
	mostClosed = 50 // items that cannot be decided any more
)

// Messages to a Model.
type (
	listed struct {
		items []Item
		err   error
	}
	decided struct {
		id  string
		err error
	}
	look  struct{}
	heard struct {
		session string
		event   api.Event
	}
)

// A part says what the lower part of the screen shows.
type part int

const (
	card part = iota
	transcript
	help
)

// A Model is the state of an inbox.
type Model struct {
	src    Source
	ctx    context.Context // of the program, which is the life of the model
	now    func() time.Time
	follow func(session string) // the session whose transcript is wanted
	colour bool
	width  int
	height int

	items   []Item
	at      string // the id of the item under the cursor
	shows   part
	whole   bool // the card has the screen for itself
	details bool
	scroll  term.Scroll
	read    map[string]bool // ids of items that were on the screen to their end
	sending map[string]bool // ids of items whose decision is being sent

	prompt *prompt
	told   string // about the last key
	bad    bool   // what is told is an error

	answered bool // a list has come
	asOf     time.Time
	trouble  string // why the server cannot be reached; "" if it can
	looking  bool

	said story
}

// A prompt asks for a line.
type prompt struct {
	words    string
	text     []rune
	decision Decision
	digest   bool // the line is the beginning of the digest
}

// New returns an inbox. follow is called with the session under the cursor.
func New(ctx context.Context, src Source, now func() time.Time, colour bool, follow func(session string)) *Model {
	return &Model{ctx: ctx, src: src, now: now, colour: colour, follow: follow, width: 80, height: 24,
		read: map[string]bool{}, sending: map[string]bool{}}
}

func (m *Model) Init() tea.Cmd { return m.look() }

// look asks for the list, once at a time.
func (m *Model) look() tea.Cmd {
	if m.looking {
		return nil
	}
	m.looking = true
	var keep []string
	for _, it := range m.items {
		if it.waits(m.now()) || it.Approval.ID == m.at {
			keep = append(keep, it.Approval.ID)
		}
	}
	return func() tea.Msg {
		items, err := m.src.List(m.ctx, keep)
		return listed{items, err}
	}
}

func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		if msg.IsRepeat && m.prompt == nil {
			return m, nil // a key that is held down decides once
		}
		return m, m.key(msg)
	case tea.PasteMsg:
		if m.prompt != nil {
			m.prompt.add(msg.Content)
		}
	case listed:
		m.take(msg)
		return m, tea.Tick(lookEvery, func(time.Time) tea.Msg { return look{} })
	case look:
		return m, m.look()
	case decided:
		delete(m.sending, msg.id)
		if msg.err != nil {
			m.told, m.bad = msg.id+": "+core.OneLine(msg.err.Error(), 400), true
		}
		return m, m.look()
	case heard:
		m.said.take(msg)
	}
	return m, nil
}

// take takes a list of what there is now.
func (m *Model) take(l listed) {
	m.looking = false
	if l.err != nil {
		m.trouble = core.OneLine(l.err.Error(), 300)
		return
	}
	now := m.now()
	m.trouble, m.asOf, m.answered = "", now, true
	for _, it := range l.items {
		if i := m.index(it.Approval.ID); i < 0 {
			m.items = append(m.items, it)
		} else {
			if was := m.items[i]; was.Unsure != it.Unsure || was.Approval.Digest != it.Approval.Digest || !slices.Equal(was.Asked, it.Asked) {
				delete(m.read, it.Approval.ID) // nobody has read what it shows now
			}
			m.items[i] = it
		}
	}
	sorted(m.items, now)
	var closed int
	m.items = slices.DeleteFunc(m.items, func(it Item) bool {
		if it.waits(now) || it.Approval.ID == m.at {
			return false
		}
		closed++
		return closed > mostClosed
	})
	if m.at == "" && len(m.items) > 0 {
		m.choose(0)
	}
}

func (m *Model) index(id string) int {
	return slices.IndexFunc(m.items, func(it Item) bool { return it.Approval.ID == id })
}

// current returns the item under the cursor, or nil.
func (m *Model) current() *Item {
	if i := m.index(m.at); i >= 0 {
		return &m.items[i]
	}
	return nil
}

// choose moves the cursor.
func (m *Model) choose(i int) {
	if len(m.items) == 0 {
		return
	}
	it := m.items[max(min(i, len(m.items)-1), 0)]
	if it.Approval.ID == m.at {
		return
	}
	m.at, m.scroll, m.told, m.bad = it.Approval.ID, term.Scroll{}, "", false
	if it.Approval.Session != m.said.session {
		m.said = story{session: it.Approval.Session}
		m.follow(it.Approval.Session)
	}
}

// tell says something about the last key.
func (m *Model) tell(text string) { m.told, m.bad = text, false }

func (p *prompt) add(text string) {
	const mostTyped = 1000
	for _, r := range strings.Join(strings.Fields(text), " ") {
		if len(p.text) < mostTyped {
			p.text = append(p.text, r)
		}
	}
}
