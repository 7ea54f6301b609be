package console

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"
)

// patient is a recorder that streams may write to. It calls began before each write.
type patient struct {
	*httptest.ResponseRecorder
	began func()
}

func (p patient) SetWriteDeadline(time.Time) error {
	p.began()
	return nil
}

// A stream ends soon after its login: by a logout, or because its time is over.
func TestAStreamEndsWithItsLogin(t *testing.T) {
	countEvery = 20 * time.Millisecond
	t.Cleanup(func() { countEvery = 10 * time.Second })
	for how, end := range map[string]func(c *Console, cookie string){
		"a logout":      func(c *Console, cookie string) { ask(c, "POST", "/logout", cookie, url.Values{}) },
		"a short login": func(*Console, string) {},
	} {
		for _, path := range []string{"/sessions/s/events", "/live?of=inbox"} {
			f := &fakeAPI{streams: make(chan struct{}), answers: map[string]string{"GET /v1/sessions": `{"items":[]}`}}
			c := newConsole(f)
			if how == "a short login" {
				c.logins.Lifetime = 2 * time.Second
			}
			cookie := loggedIn(t, c, "ann")
			writes, ended := make(chan struct{}), make(chan struct{})
			began := sync.OnceFunc(func() { close(writes) })
			go func() {
				defer close(ended)
				r := httptest.NewRequest("GET", "http://"+host+path, nil)
				r.AddCookie(&http.Cookie{Name: "c", Value: cookie})
				c.ServeHTTP(patient{httptest.NewRecorder(), began}, r)
			}()
			if path == "/live?of=inbox" {
				<-writes
			} else {
				<-f.streams
			}
			select {
			case <-ended:
				t.Errorf("%s ends before %s", path, how)
			default:
			}
			end(c, cookie)
			select {
			case <-ended:
			case <-time.After(5 * time.Second):
				t.Errorf("%s outlives %s", path, how)
			}
		}
	}
}
