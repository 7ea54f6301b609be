package issuer

import (
	"html/template"
	"net/http"
	"net/url"
)

// loginPath is where the issuer sends people of the authorization code flow.
const loginPath = "/login/username"

// SendsTo lets clients have browsers sent back to these addresses.
func (i *Issuer) SendsTo(addresses ...string) {
	i.store.mu.Lock()
	defer i.store.mu.Unlock()
	i.store.redirects = addresses
}

var loginForm = template.Must(template.New("").Parse(`<!doctype html><html lang="en"><title>The issuer</title><h1>The issuer</h1>
<form method="post"><input type="hidden" name="id" value="{{.}}"><label>Who are you? <input name="username"></label> <button>Log in</button></form>`))

// pages serves the form at which people say who they are. Nobody has a password.
func (i *Issuer) pages() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_ = loginForm.Execute(w, r.FormValue("authRequestID"))
			return
		}
		id := r.PostFormValue("id")
		if err := i.store.CheckUsernamePassword(r.PostFormValue("username"), "", id); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		http.Redirect(w, r, i.URL+"/authorize/callback?id="+url.QueryEscape(id), http.StatusFound)
	})
}
