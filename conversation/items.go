package conversation

import (
	"encoding/json"

	"fairlead.dev/fairlead/conversation/wire"
)

// The items of a pump are the things that codex works on: messages, commands, file changes.
// The state lists the open items, and the turns add to that list. This part removes items
// from the list. It also owns the data of items that the state leaves out because the
// journal has it: the changes of files, the texts so far, and the ends of texts that are
// not shown yet. It calls no part.
type items struct {
	*core
	changes map[itemKey][]wire.Change // for the requests about them
	texts   map[itemKey]*unfinished
	held    map[itemKey]tail
}

func newItems(c *core) *items {
	return &items{core: c, changes: map[itemKey][]wire.Change{}, texts: map[itemKey]*unfinished{}, held: map[itemKey]tail{}}
}

// turnEnds forgets the items of a turn that has ended.
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

// changed takes the changes of an open item.
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

// long ends the item that an oversize line completes. If the pump cannot tell which item
// that is, it keeps all texts until the turn's end. It also marks all open items as
// background, so that no item counts as work of the turn for ever.
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
