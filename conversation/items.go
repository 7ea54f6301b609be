package conversation

import (
	"encoding/json"

	"fairlead.dev/fairlead/conversation/wire"
)

// The items part removes open items from the state's list, to which the turns add. It also
// owns what the state leaves out because the journal has it: file changes, texts so far,
// and ends of texts that are not shown yet. It calls no part.
type items struct {
	*core
	changes map[itemKey][]wire.Change // for the requests about them
	texts   map[itemKey]*unfinished
	held    map[itemKey]tail
}

func newItems(c *core) *items {
	return &items{core: c, changes: map[itemKey][]wire.Change{}, texts: map[itemKey]*unfinished{}, held: map[itemKey]tail{}}
}

func (o *items) turnEnds() {
	var left []OpenItem
	for _, it := range o.st.Items {
		if it.Type == "commandExecution" { // it may go on in the background
			left = append(left, it)
			continue
		}
		o.clear(it.key())
	}
	o.st.Items = left
}

func (o *items) clear(key itemKey) {
	delete(o.changes, key)
	delete(o.texts, key)
	delete(o.held, key)
}

func (o *items) changed(key itemKey, changes []wire.Change) {
	if o.st.openItem(key) != nil {
		o.changes[key] = changes
	}
}

func (o *items) drop(key itemKey) (OpenItem, bool) {
	for i, it := range o.st.Items {
		if it.key() == key {
			o.st.Items = append(o.st.Items[:i:i], o.st.Items[i+1:]...)
			o.clear(key)
			return it, true
		}
	}
	return OpenItem{}, false
}

// long ends the item that an oversize line completes. If the item is not known, texts stay
// until the turn's end, and all open items become background, so that none counts as work
// for ever.
func (o *items) long(id string) {
	var found []itemKey
	for i := range o.st.Items {
		if o.st.Items[i].ID == id {
			found = append(found, o.st.Items[i].key())
		}
	}
	if id != "" && len(found) < 2 {
		for _, key := range found {
			o.drop(key)
		}
		return
	}
	for i := range o.st.Items {
		o.st.Items[i].Background = true
	}
}

func (o *items) patchUpdated(p json.RawMessage) {
	var n struct {
		wire.Notice
		Changes []wire.Change `json:"changes"`
	}
	if json.Unmarshal(p, &n) != nil {
		return
	}
	o.changed(o.st.keyOf(n.ThreadID, n.ItemID), n.Changes)
}
