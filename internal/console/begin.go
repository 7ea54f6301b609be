package console

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/protocol"
)

// A startForm is the form of what is to begin, as it was sent if it did not count.
type startForm struct {
	Key    string
	Values url.Values
}

// Of returns what the person typed into a field.
func (f startForm) Of(name string) string { return f.Values.Get(name) }

// newForm is a form that nobody has filled in.
func newForm(with ...string) startForm {
	f := startForm{Key: newKey(), Values: url.Values{"sandbox": {"workspace-write"}, "approval_policy": {"on-request"}}}
	for i := 0; i+1 < len(with); i += 2 {
		f.Values.Set(with[i], with[i+1])
	}
	return f
}

// A beginning is a page with a form that begins something.
type beginning struct {
	Page, Title, Here string
	Verb              access.Verb
}

var (
	aSession  = beginning{"new", "New session", "new", access.SessionStart}
	aBatch    = beginning{"newbatch", "New batch", "batches", access.BatchRun}
	aSchedule = beginning{"newschedule", "New schedule", "schedules", access.ScheduleWrite}
)

// form returns the handler of the empty form, with what its fields have at first.
func (b beginning) form(with ...string) func(*visit) error {
	return func(v *visit) error {
		if !v.may(b.Verb, "") {
			return b.forbidden()
		}
		return v.show(http.StatusOK, b.Page, b.Title, b.Here, "", newForm(with...))
	}
}

func (b beginning) forbidden() error {
	return &Problem{Status: http.StatusForbidden, Detail: "you may not do this: it needs " + string(b.Verb), Hint: "`ctl access why` says which bindings were looked at"}
}

// begin asks the API to begin something, and leads to its page. A form that does not count is shown
// again with what was typed. path reads the form, only for those who may begin something: it can
// make much of a form.
func (b beginning) begin(v *visit, path func() (string, any, error), to func() string, out any) error {
	err := b.forbidden()
	if v.may(b.Verb, "") {
		var at string
		var body any
		if at, body, err = path(); err == nil {
			err = v.ask(v.r.Context(), http.MethodPost, at, v.formKey(), body, out)
		}
	}
	if err == nil {
		return v.see(to())
	}
	p, told := err.(*Problem)
	if !told || p.Status == http.StatusUnauthorized {
		return err
	}
	return v.showWith(p, p.Status, b.Page, b.Title, b.Here, "", startForm{Key: v.keyAfter(p), Values: v.r.PostForm})
}

func badForm(format string, args ...any) error {
	return &Problem{Status: http.StatusBadRequest, Detail: fmt.Sprintf(format, args...)}
}

// sessionOf reads the fields of a session. They have the API's words.
func sessionOf(f url.Values, names ...string) map[string]any {
	body := map[string]any{}
	for _, name := range append(names, "host", "seed", "dir", "model", "effort", "sandbox", "approval_policy") {
		if value := strings.TrimSpace(f.Get(name)); value != "" {
			body[name] = value
		}
	}
	if labels := strings.Fields(f.Get("labels")); len(labels) > 0 {
		body["labels"] = labels
	}
	return body
}

func (v *visit) startSession() error {
	var started struct {
		ID string `json:"id"`
	}
	return aSession.begin(v, func() (string, any, error) {
		f := v.r.PostForm
		body := sessionOf(f, "id")
		if text := f.Get("text"); strings.TrimSpace(text) != "" {
			body["message"] = map[string]string{"text": text}
			if f.Get("close_after") != "" {
				body["close_after"] = true
			}
		}
		return "/v1/sessions", body, nil
	}, func() string { return "/sessions/" + url.PathEscape(started.ID) }, &started)
}

const (
	// itemMark is where a batch's text gets the line of an item.
	itemMark = "{{item}}"
	// maxItems bounds the lines of a form. The API takes as many.
	maxItems = 10_000
	// maxTexts bounds the texts of all items of a form together, in bytes. A long text with many
	// items is far longer than its form.
	maxTexts = 16 << 20
)

func (v *visit) startBatch() error {
	id := strings.TrimSpace(v.r.PostForm.Get("id"))
	return aBatch.begin(v, func() (string, any, error) {
		if !protocol.NamePattern.MatchString(id) {
			return "", nil, badForm("the id of a batch has lower-case letters, digits, and . _ -, begins with a letter or digit, and has 63 characters at most")
		}
		body, err := batchOf(v.r.PostForm)
		return "/v1/batches/" + url.PathEscape(id), body, err
	}, func() string { return "/batches/" + url.PathEscape(id) }, nil)
}

// batchOf reads the fields of a batch: a text with a place for each item, and one item a line.
func batchOf(f url.Values) (map[string]any, error) {
	text := f.Get("text")
	if strings.TrimSpace(text) == "" {
		return nil, badForm("it does not say what codex is to do")
	}
	var items []map[string]any
	marks, texts := strings.Count(text, itemMark), 0
	for line := range strings.Lines(strings.ReplaceAll(f.Get("items"), "\r\n", "\n")) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if len(items) == maxItems {
			return nil, badForm("it has more than %d items", maxItems)
		}
		if texts += len(text) + marks*(len(line)-len(itemMark)); texts > maxTexts {
			return nil, badForm("the texts of its items have more than %d MiB together: shorten what codex is to do, make several batches of the items, or use `ctl batch run`", maxTexts>>20)
		}
		items = append(items, map[string]any{"id": strconv.Itoa(len(items) + 1), "message": map[string]string{"text": strings.ReplaceAll(text, itemMark, line)}})
	}
	switch {
	case len(items) == 0:
		return nil, badForm("it has no items: write one a line")
	case len(items) > 1 && !strings.Contains(text, itemMark):
		return nil, badForm("all %d items would do the same: write %s where the text is to have the item's line", len(items), itemMark)
	}
	body := map[string]any{"items": items, "defaults": sessionOf(f)}
	for _, field := range []struct {
		name, word string
		most       int
	}{{"window", "sessions at a time", 500}, {"stop_after", "failures", maxItems}} {
		text := strings.TrimSpace(f.Get(field.name))
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > field.most {
			return nil, badForm("%s: %.20q is not a number from 0 to %d", field.word, text, field.most)
		}
		if n > 0 {
			body[field.name] = n
		}
	}
	return body, nil
}

func (v *visit) createSchedule() error {
	name := strings.TrimSpace(v.r.PostForm.Get("name"))
	return aSchedule.begin(v, func() (string, any, error) {
		if !protocol.NamePattern.MatchString(name) {
			return "", nil, badForm("the name of a schedule has lower-case letters, digits, and . _ -, begins with a letter or digit, and has 63 characters at most")
		}
		body, err := scheduleOf(v.r.PostForm)
		return "/v1/schedules/" + url.PathEscape(name), body, err
	}, func() string { return "/schedules/" + url.PathEscape(name) }, nil)
}

// scheduleOf reads the fields of a schedule. With items it begins a batch, and otherwise a session.
func scheduleOf(f url.Values) (map[string]any, error) {
	body := map[string]any{}
	switch when := strings.TrimSpace(f.Get("when")); {
	case when == "":
		return nil, badForm("it does not say when")
	case f.Get("how") == "every":
		body["every"] = []string{when}
	case f.Get("how") == "calendar":
		body["calendar"] = []string{when}
	default:
		body["cron"] = []string{when}
	}
	for _, name := range []string{"tz", "overlap", "note"} {
		if value := strings.TrimSpace(f.Get(name)); value != "" {
			body[name] = value
		}
	}
	if f.Get("paused") != "" {
		body["paused"] = true
	}
	if strings.TrimSpace(f.Get("items")) != "" {
		batch, err := batchOf(f)
		body["batch"] = batch
		return body, err
	}
	if strings.TrimSpace(f.Get("text")) == "" {
		return nil, badForm("it does not say what codex is to do")
	}
	session := sessionOf(f)
	session["message"] = map[string]string{"text": f.Get("text")}
	body["session"] = session
	return body, nil
}
