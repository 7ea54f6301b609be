package console

import (
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/escape"
	"fairlead.dev/fairlead/internal/protocol"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed assets
var assetFiles embed.FS

// templates returns the pages by name. Each is a copy of the frame with one content. Programs that
// serve no console do not parse them.
var templates = sync.OnceValue(parseTemplates)

func parseTemplates() map[string]*template.Template {
	shared := template.Must(template.New("").Funcs(funcs).ParseFS(templateFiles, "templates/page.html", "templates/parts.html"))
	all := map[string]*template.Template{}
	files, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		panic(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(path.Base(file), ".html")
		if name != "page" && name != "parts" {
			all[name] = template.Must(template.Must(shared.Clone()).ParseFS(templateFiles, file))
		}
	}
	return all
}

// funcs are what templates may call. All text of hosts, models and other people goes through
// text, line or code: they make hidden characters visible. html/template escapes HTML.
var funcs = template.FuncMap{
	"text": escape.Text, "line": func(s string) string { return escape.OneLine(s, maxShownLine) }, "exact": escape.Line, "clip": clip,
	"code": colours, "diff": diffOf, "stamp": stamp, "iso": iso, "left": left, "short": short, "key": rand.Text, "json": pretty,
	"asset": assetPath, "state": stateClass, "has": has, "lower": strings.ToLower, "percent": percent,
	"reasoned": func(ap protocol.Approval) bool { return ap.Reason != "" }, "plural": plural, "slots": slotsStrip, "progress": batchStrip, "days": days, "size": sizeOf,
}

const (
	maxShownLine = 400
	maxShownText = 64 << 10
)

// clip shortens a text to what a page shows of it, in characters that are whole.
func clip(n int, s string) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + fmt.Sprintf("\n… and %s more", sizeOf(int64(len(s)-n)))
}

func cut(s string, n int) string { return escape.OneLine(s, n) }

func sizeOf(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// days shows a time that may be missing.
func days(t *time.Time) string {
	if t == nil {
		return "–"
	}
	return stamp(*t)
}

func iso(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// left says how long it is until t.
func left(t time.Time) string {
	if t.IsZero() {
		return "without an end"
	}
	d := time.Until(t)
	switch {
	case d <= 0:
		return "expired"
	case d < time.Minute:
		return fmt.Sprintf("%d s left", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min left", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %02d min left", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days left", int(d.Hours())/24)
}

func short(digest string) string {
	if len(digest) > 12 {
		return digest[:12]
	}
	return digest
}

func pretty(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	out, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return string(raw)
	}
	return string(out)
}

func has(list []string, word string) bool {
	for _, w := range list {
		if w == word {
			return true
		}
	}
	return false
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func percent(c protocol.BudgetCount) int64 {
	if c.Limit <= 0 {
		return 0
	}
	return min(100, 100*c.Used/c.Limit)
}

// stateClass groups the states of a session by what a person has to do about it.
func stateClass(s any) string {
	switch fmt.Sprint(s) {
	case "waiting", "interrupted", "open", "suspect", "draining", "verifying", "recovering", "unchecked":
		return "attention"
	case "failed", "declined", "expired", "void", "dead", "quarantined", "unfit":
		return "bad"
	case "running", "starting", "preparing", "resuming", "sent", "decided":
		return "busy"
	case "idle", "acknowledged", "ready", "healthy", "completed":
		return "good"
	}
	return "quiet"
}

// assetPaths are the addresses of the console's files. Each has the file's digest in its
// name, so a browser keeps it for as long as it is the same.
var assetPaths, assetsByPath = nameAssets()

type asset struct {
	kind string
	data []byte
}

func nameAssets() (map[string]string, map[string]asset) {
	kinds := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
	paths, files := map[string]string{}, map[string]asset{}
	list, err := assetFiles.ReadDir("assets")
	if err != nil {
		panic(err)
	}
	for _, e := range list {
		data, err := assetFiles.ReadFile("assets/" + e.Name())
		if err != nil {
			panic(err)
		}
		ext := path.Ext(e.Name())
		sum := sha256.Sum256(data)
		name := strings.TrimSuffix(e.Name(), ext) + "-" + hex.EncodeToString(sum[:6]) + ext
		paths[e.Name()], files[name] = "/assets/"+name, asset{kinds[ext], data}
	}
	return paths, files
}

func assetPath(name string) (string, error) {
	p, ok := assetPaths[name]
	if !ok {
		return "", fmt.Errorf("there is no asset %q", name)
	}
	return p, nil
}

func serveAsset(w http.ResponseWriter, r *http.Request) {
	a, ok := assetsByPath[r.PathValue("name")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", a.kind)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	send(w, r, http.StatusOK, a.data)
}
