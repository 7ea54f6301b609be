package seeds

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2/unstable"
)

// Our settings stand in config.toml between these marks: keys of the document before any
// [table], keys of the owner's tables below their headers, new tables last, as TOML
// requires. Without the marks and all between them, the bytes are the owner's.
const (
	markBegin = "# >>> fairlead: written anew at each start; edit elsewhere >>>"
	// The newline before this mark is ours: the owner's last line had none.
	markBeginTorn = "# >>> fairlead: written anew at each start; edit elsewhere; the newline before is ours too >>>"
	markEnd       = "# <<< fairlead <<<"
)

// A setting is one key of ours. If the owner sets it, the owner's value stays, or it is an
// error if must is set. With whole, a table of that name is an error, too.
type setting struct {
	table []string
	key   string
	value string // as TOML
	must  bool
	whole bool
}

var errTwice = errors.New("which is added at each start (remove it from config.toml)")

func (s setting) path() []string { return slices.Concat(s.table, []string{s.key}) }

func (s setting) String() string { return dottedKey(s.path()) }

// mergeConfig adds settings to the owner's config.toml. It skips those that the owner sets
// or leaves no place for, or fails if must is set. It also fails if the result is not valid
// TOML with exactly the owner's settings and ours.
func mergeConfig(owner []byte, settings []setting) (_ []byte, skipped []string, err error) {
	if owner, err = StripConfig(owner); err != nil {
		return nil, nil, err
	}
	before, err := parseConfig(owner)
	if err != nil {
		return nil, nil, err
	}
	where, err := surveyConfig(owner)
	if err != nil {
		return nil, nil, err
	}
	var added []setting
	inside := map[int][]string{} // lines to insert, by offset; -1 is the top
	var tail []string
	var open []string
	for _, s := range settings {
		_, set := lookup(before, s.path())
		if s.whole {
			if _, there := lookup(before, s.table); there {
				return nil, nil, fmt.Errorf("config.toml sets [%s], %w", dottedKey(s.table), errTwice)
			}
		}
		at, dotted, own, ok := where.room(s.table)
		if set || !ok {
			if s.must {
				return nil, nil, fmt.Errorf("config.toml sets %s, %w", s, errTwice)
			}
			skipped = append(skipped, s.String())
			continue
		}
		added = append(added, s)
		if own {
			if !slices.Equal(open, s.table) {
				tail = append(tail, "["+dottedKey(s.table)+"]")
				open = s.table
			}
			tail = append(tail, dottedKey([]string{s.key})+" = "+s.value)
			continue
		}
		inside[at] = append(inside[at], dottedKey(slices.Concat(dotted, []string{s.key}))+" = "+s.value)
	}
	merged := assemble(owner, inside, tail)
	if err := verifyMerge(owner, before, merged, added); err != nil {
		return nil, nil, err
	}
	return merged, skipped, nil
}

func assemble(owner []byte, inside map[int][]string, tail []string) []byte {
	var out bytes.Buffer
	block := func(lines []string) {
		if len(lines) == 0 {
			return
		}
		mark := markBegin
		if n := out.Len(); n > 0 && out.Bytes()[n-1] != '\n' {
			out.WriteByte('\n')
			mark = markBeginTorn
		}
		out.WriteString(mark + "\n" + strings.Join(lines, "\n") + "\n" + markEnd + "\n")
	}
	block(inside[-1])
	done := 0
	for _, at := range slices.Sorted(maps.Keys(inside)) {
		if at < 0 {
			continue
		}
		out.Write(owner[done:at])
		done = at
		block(inside[at])
	}
	out.Write(owner[done:])
	block(tail)
	return out.Bytes()
}

func verifyMerge(owner []byte, before map[string]any, merged []byte, added []setting) error {
	after, err := parseConfig(merged)
	if err != nil {
		return fmt.Errorf("add Fairlead's settings to config.toml: %w (write the tables of config.toml as [table] headers)", err)
	}
	if back, err := StripConfig(merged); err != nil || !bytes.Equal(back, owner) {
		return errors.New("adding Fairlead's settings to config.toml would lose bytes of the original: this is a bug in Fairlead")
	}
	for _, s := range added {
		if _, there := lookup(after, s.path()); !there {
			return fmt.Errorf("setting %s is missing from config.toml after Fairlead added it: this is a bug in Fairlead", s)
		}
		drop(after, s.path())
	}
	if before == nil {
		before = map[string]any{}
	}
	if !sameTables(before, after) {
		return errors.New("adding Fairlead's settings would change other settings of config.toml: this is a bug in Fairlead")
	}
	return nil
}

// sameTables takes a missing table for an empty one: removing our keys leaves empty tables.
func sameTables(a, b map[string]any) bool {
	for _, k := range slices.Concat(slices.Collect(maps.Keys(a)), slices.Collect(maps.Keys(b))) {
		ta, isA := a[k].(map[string]any)
		tb, isB := b[k].(map[string]any)
		if (isA || a[k] == nil) && (isB || b[k] == nil) {
			if !sameTables(ta, tb) {
				return false
			}
		} else if !reflect.DeepEqual(a[k], b[k]) && fmt.Sprint(a[k]) != fmt.Sprint(b[k]) { // NaN differs from itself
			return false
		}
	}
	return true
}

func lookup(c map[string]any, path []string) (any, bool) {
	for i, part := range path {
		v, ok := c[part]
		if !ok {
			return nil, false
		}
		if i == len(path)-1 {
			return v, true
		}
		if c, ok = v.(map[string]any); !ok {
			return nil, false
		}
	}
	return c, true
}

func drop(c map[string]any, path []string) {
	for _, part := range path[:len(path)-1] {
		c, _ = c[part].(map[string]any)
	}
	delete(c, path[len(path)-1])
}

// StripConfig returns a config.toml without our part. Marks that do not match are an error.
// So is invalid TOML, if it mentions fairlead.
func StripConfig(doc []byte) ([]byte, error) {
	if !bytes.Contains(doc, []byte("fairlead")) {
		return doc, nil
	}
	var out []byte
	var p unstable.Parser
	p.KeepComments = true
	p.Reset(doc)
	kept, inside := 0, false
	for p.NextExpression() {
		// Only a comment can be a mark, not a line of a multi-line string.
		e := p.Expression()
		if e.Kind != unstable.Comment {
			continue
		}
		at := int(e.Raw.Offset)
		switch text := strings.TrimSuffix(string(e.Data), "\r"); {
		case (text == markBegin || text == markBeginTorn) && !inside:
			end := at
			if text == markBeginTorn && end > kept && doc[end-1] == '\n' {
				end--
			}
			out = append(out, doc[kept:end]...)
			inside = true
		case text == markEnd && inside:
			kept, inside = lineEnd(doc, at), false
		case text == markBegin, text == markBeginTorn, text == markEnd:
			return nil, errors.New("config.toml: the lines `# >>> fairlead…` and `# <<< fairlead <<<` do not come in pairs: delete them and what Fairlead wrote between them")
		}
	}
	if p.Error() != nil {
		_, err := parseConfig(doc)
		if err == nil {
			err = errors.New("config.toml is not valid TOML")
		}
		return nil, err
	}
	if inside {
		return nil, errors.New("config.toml: a line `# >>> fairlead…` has no `# <<< fairlead <<<` after it: delete it and the lines below it that Fairlead wrote")
	}
	return append(out, doc[kept:]...), nil
}

func dottedKey(path []string) string {
	parts := make([]string, len(path))
	for i, part := range path {
		if part != "" && !strings.ContainsFunc(part, func(r rune) bool { return !bareKey(r) }) {
			parts[i] = part
		} else {
			parts[i] = tomlString(part)
		}
	}
	return strings.Join(parts, ".")
}

func bareKey(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-'
}

// tomlString requires valid UTF-8.
func tomlString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			b.WriteString(`\u` + fmt.Sprintf("%04X", r))
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// writable reports whether TOML can hold s.
func writable(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

func tomlBool(v bool) string { return strconv.FormatBool(v) }
