package httpapi

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Paged are the parameters of a list.
type Paged struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100" doc:"at most so many"`
	Cursor string `query:"cursor" maxLength:"4096" doc:"the cursor of the page before"`
}

// A Page is a part of a list.
type Page[T any] struct {
	Items  []T    `json:"items"`
	Cursor string `json:"cursor,omitempty" doc:"of the next page; none on the last one"`
}

// A cursor says where a list goes on, and of which list: the path with its filters.
type cursor struct {
	Of    string `json:"of"`
	After []byte `json:"after"`
}

func (c cursor) String() string {
	if len(c.After) == 0 {
		return ""
	}
	raw, err := json.Marshal(c)
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// after returns where the list of goes on, or nil for its beginning.
func (p Paged) after(of string) ([]byte, error) {
	if p.Cursor == "" {
		return nil, nil
	}
	var c cursor
	raw, err := base64.RawURLEncoding.DecodeString(p.Cursor)
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	switch {
	case err != nil || len(c.After) == 0:
		return nil, badInput("cursor: it is none that this API gave")
	case c.Of != of:
		return nil, badInput("cursor: it belongs to another list, or to other filters: begin again without one")
	}
	return c.After, nil
}

// A mark is where a list goes on that is ordered by time and id: after that item, which may have
// left the list.
type mark struct {
	At time.Time `json:"at"`
	ID string    `json:"id"`
}

func (m mark) compare(n mark) int {
	return cmp.Or(m.At.Compare(n.At), strings.Compare(m.ID, n.ID))
}

// pageByTime sorts a list whose items may vanish, and cuts a page out of it.
func pageByTime[T any](p Paged, of string, all []T, markOf func(T) mark) (Page[T], error) {
	after, err := p.after(of)
	if err != nil {
		return Page[T]{}, err
	}
	slices.SortStableFunc(all, func(x, y T) int { return markOf(x).compare(markOf(y)) })
	if after != nil {
		var m mark
		if json.Unmarshal(after, &m) != nil || m.ID == "" {
			return Page[T]{}, badInput("cursor: it is of an earlier release: begin again without one")
		}
		all = slices.DeleteFunc(all, func(v T) bool { return markOf(v).compare(m) <= 0 })
	}
	end := min(p.Limit, len(all))
	page := Page[T]{Items: append([]T{}, all[:end]...)}
	if end < len(all) {
		raw, err := json.Marshal(markOf(all[end-1]))
		if err != nil {
			return page, err
		}
		page.Cursor = cursor{of, raw}.String()
	}
	return page, nil
}

// pageOf cuts a page out of a whole list, whose items have ids.
func pageOf[T any](p Paged, of string, all []T, id func(T) string) (Page[T], error) {
	after, err := p.after(of)
	if err != nil {
		return Page[T]{}, err
	}
	begin := 0
	if after != nil {
		for begin < len(all) && id(all[begin]) != string(after) {
			begin++
		}
		if begin++; begin > len(all) {
			return Page[T]{}, badInput("cursor: the item where the list would go on does not exist any more: begin again without one")
		}
	}
	end := min(begin+p.Limit, len(all))
	page := Page[T]{Items: append([]T{}, all[begin:end]...)}
	if end < len(all) {
		page.Cursor = cursor{of, []byte(id(all[end-1]))}.String()
	}
	return page, nil
}
