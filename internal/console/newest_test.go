package console

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"fairlead.dev/fairlead/internal/api"
)

// longAPI has a session with so many entries. Its pages have so many at most, as the API cuts those
// with long texts; 0 means as many as are asked for.
type longAPI struct {
	fakeAPI
	entries int64
	cut     int
	asked   int
}

func (a *longAPI) Inside(api.Person) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.asked++
		type entry struct {
			Seq int64 `json:"seq"`
		}
		page := struct {
			Items  []entry `json:"items"`
			Cursor string  `json:"cursor,omitempty"`
		}{Items: []entry{}}
		from, err := strconv.ParseInt(r.URL.Query().Get("from"), 10, 64)
		limit, lerr := strconv.Atoi(r.URL.Query().Get("limit"))
		if err != nil || lerr != nil || from < 1 || limit < 1 {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		wanted := limit
		if a.cut > 0 {
			limit = min(limit, a.cut)
		}
		for ; from <= a.entries && len(page.Items) < limit; from++ {
			page.Items = append(page.Items, entry{from})
		}
		if n := len(page.Items); n == wanted || n > 0 && from <= a.entries {
			page.Cursor = strconv.FormatInt(from, 10)
		}
		_ = json.NewEncoder(w).Encode(page)
	})
}

// The newest entry is found in a transcript of any length with few looks, and with fewer at the next
// visit, also if entries were taken back meanwhile.
func TestTheNewestEntryIsFoundWithFewLooks(t *testing.T) {
	f := &longAPI{}
	c := newConsole(&f.fakeAPI)
	c.opts.API = f
	for _, one := range []struct {
		entries int64
		most    int // requests
	}{{0, 2}, {1, 3}, {2, 3}, {199, 3}, {200, 3}, {201, 4}, {20_000, 15}, {20_001, 3}, {20_300, 6}, {3, 3}, {1_000_000, 22}} {
		f.entries, f.asked = one.entries, 0
		v := &visit{Console: c, r: httptest.NewRequest("GET", "/", nil)}
		got, err := v.newest("s")
		if err != nil || got != one.entries || f.asked > one.most {
			t.Errorf("of %d entries, %d is the newest, after %d requests (%v)", one.entries, got, f.asked, err)
		}
	}
}

// The newest entry is found also if texts are so long that the API cuts its pages.
func TestTheNewestEntryIsFoundThoughPagesAreCut(t *testing.T) {
	for _, cut := range []int{1, 3, 199} {
		for _, entries := range []int64{0, 1, 3, 150, 199, 200, 201, 399, 1_000} {
			f := &longAPI{entries: entries, cut: cut}
			c := newConsole(&f.fakeAPI)
			c.opts.API = f
			for range 2 { // at the second visit it is known how long the transcript was
				v := &visit{Console: c, r: httptest.NewRequest("GET", "/", nil)}
				if got, err := v.newest("s"); err != nil || got != f.entries {
					t.Errorf("of %d entries, in pages of %d, %d is the newest (%v)", f.entries, cut, got, err)
				}
				f.entries += 20
			}
		}
	}
}
