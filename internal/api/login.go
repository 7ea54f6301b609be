package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/login"
)

// Logins gives certificates to people.
type Logins interface {
	Settings() login.Settings
	// Certify's error wraps one of login's.
	Certify(ctx context.Context, r login.Request) (login.Certificate, error)
	// Admits says why a person would get no certificate that counts. Its error wraps one of
	// login's.
	Admits(who login.Person) error
}

// ErrIssuer is the kind of an error: the issuer of logins does not answer.
const ErrIssuer = "issuer"

// The command that a caller signs to be told who it is. It goes to no workflow.
const (
	whoamiTo = "api/whoami"
	whoami   = "whoami"
)

// A Caller is who signed, as the worker's access file has it.
type Caller struct {
	Principal string        `json:"principal"`
	Groups    []string      `json:"groups"` // of the certificate and of the file
	Roles     []access.Role `json:"roles"`  // whatever the conditions
	// Owner is who made the API token that signed, and Verbs what it may do, whatever the
	// conditions: what its roles and its scope allow, and its owner may do, too.
	Owner string        `json:"owner,omitempty"`
	Verbs []access.Verb `json:"verbs,omitempty"`
}

const (
	maxLogin  = 256 << 10 // bytes
	loginWait = time.Minute
	notSecret = "an ID token is a credential: it is given to a worker over a unix socket or TLS only"
)

// needsNoToken reports whether a request carries the credential that counts in its body, or
// asks how to get one.
func (s *Server) needsNoToken(r *http.Request) bool {
	if _, ok := apiToken(r); ok && s.opts.Authority != nil {
		return true
	}
	switch r.URL.Path {
	case "/v1/login":
		return s.opts.Login != nil
	case "/v1/whoami":
		return s.opts.Access != nil
	}
	return false
}

func (s *Server) loginSettings(w http.ResponseWriter, _ *http.Request) {
	if s.opts.Login == nil {
		s.fail(w, noLogin())
		return
	}
	s.reply(w, s.opts.Login.Settings())
}

func noLogin() *Error {
	return problem(http.StatusNotFound, ErrNotFound, "people do not log in at this worker").hinted("set login in the worker's config")
}

func (s *Server) logIn(w http.ResponseWriter, r *http.Request) {
	var in login.Request
	err := error(nil)
	switch {
	case s.opts.Login == nil:
		err = noLogin()
	case !s.secure:
		err = problem(http.StatusForbidden, ErrRefused, notSecret).hinted(listenPrivate)
	default:
		err = readLogin(w, r, &in)
	}
	if err != nil {
		refusedLogin(&s.opts, err, err)
		s.fail(w, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), loginWait)
	defer cancel()
	out, err := s.opts.Login.Certify(ctx, in)
	if err != nil {
		told := s.loginProblem(err)
		refusedLogin(&s.opts, err, told)
		s.fail(w, told)
		return
	}
	accepted(&s.opts, &caller{principal: out.Principal, source: audit.Workflow}, audit.CertificateIssue, out.KeyID,
		fmt.Sprintf("certificate issued at a login, until %s, groups %v", out.ExpiresAt.Format(time.RFC3339), out.Groups))
	s.reply(w, out)
}

func readLogin(w http.ResponseWriter, r *http.Request, in *login.Request) error {
	data, err := readBody(w, r, maxLogin, "a login")
	if err != nil {
		return err
	}
	if json.Unmarshal(data, in) != nil {
		return problem(http.StatusBadRequest, ErrBadInput, "the request body is not JSON with id_token, public_key and proof")
	}
	return nil
}

func (s *Server) loginProblem(err error) error {
	switch {
	case errors.Is(err, login.ErrBadInput):
		return problem(http.StatusBadRequest, ErrBadInput, "%v", err)
	case errors.Is(err, login.ErrRefused):
		s.log.Warn("login refused", "err", err)
		return problem(http.StatusForbidden, ErrRefused, "%v", err)
	case errors.Is(err, login.ErrIssuer):
		s.log.Warn("login failed", "err", err)
		return problem(http.StatusBadGateway, ErrIssuer, "%v", err).hinted("certificates that were issued before still count; try again when the issuer answers")
	}
	s.log.Error("login failed", "err", err) // with the key's file, which is no caller's business
	return problem(http.StatusInternalServerError, ErrInternal, "this worker cannot sign certificates now").hinted("its log says why")
}

func (s *Server) whoami(w http.ResponseWriter, r *http.Request) {
	if s.opts.Access == nil {
		s.fail(w, problem(http.StatusNotFound, ErrNotFound, "this worker has no access file").hinted("it takes commands from everybody who can reach Temporal with the payload key"))
		return
	}
	data, err := readBody(w, r, maxLogin, "a question")
	if err != nil {
		s.fail(w, err)
		return
	}
	a := s.opts.Access()
	signed, err := command.Check(command.Received{Workflow: whoamiTo, Name: whoami, Raw: data, Now: time.Now()}, a)
	switch {
	case err != nil:
		s.fail(w, problem(http.StatusForbidden, ErrRefused, "%v", err))
	case a.RevokedPerson(signed.Principal):
		s.fail(w, problem(http.StatusForbidden, ErrRefused, "%s is revoked", signed.Principal))
	default:
		c, err := callerBy(s.opts.Tokens, a, signed)
		if err != nil {
			s.fail(w, problem(http.StatusForbidden, ErrRefused, "%v", err))
			return
		}
		s.reply(w, c)
	}
}

// callerBy says who signed. Of a program it says what its token allows.
func callerBy(known Tokens, a *access.Access, signed command.Signed) (Caller, error) {
	name, is := access.TokenName(signed.Principal)
	if !is {
		return CallerOf(a, signed.Principal, signed.Groups), nil
	}
	if known == nil {
		return Caller{}, errors.New("this worker takes no API tokens")
	}
	t, err := known.Named(name)
	if err != nil {
		return Caller{}, err
	}
	now := time.Now()
	if why := a.Ended(t, now); why != "" {
		return Caller{}, errors.New(why)
	}
	c := CallerOf(a, signed.Principal, nil)
	for _, r := range t.Roles {
		if !slices.Contains(c.Roles, r) {
			c.Roles = append(c.Roles, r)
		}
	}
	c.Owner = t.Owner
	for _, v := range access.Verbs {
		if a.CouldToken(t, access.Request{Who: signed.Principal, Verb: v}, now).Allowed {
			c.Verbs = append(c.Verbs, v)
		}
	}
	return c, nil
}

// CallerOf says who somebody is by an access file. groups are those of the certificate.
func CallerOf(a *access.Access, principal string, groups []string) Caller {
	c := Caller{Principal: principal, Groups: []string{}, Roles: append([]access.Role{}, a.Roles(principal, groups)...)}
	seen := map[string]bool{}
	for _, g := range append(append([]string{}, groups...), a.Groups(principal)...) {
		if !seen[g] {
			seen[g] = true
			c.Groups = append(c.Groups, g)
		}
	}
	return c
}

// LoginSettings says where people log in. Without a login the error is of kind ErrNotFound.
func (c *Client) LoginSettings(ctx context.Context) (login.Settings, error) {
	var out login.Settings
	err := c.call(ctx, http.MethodGet, "/v1/login", nil, &out)
	return out, err
}

// LogIn asks for a certificate.
func (c *Client) LogIn(ctx context.Context, r login.Request) (login.Certificate, error) {
	var out login.Certificate
	if strings.HasPrefix(c.endpoint, "http://") {
		return out, &Error{Kind: ErrRefused, Message: notSecret, Hint: listenPrivate}
	}
	body, err := json.Marshal(r)
	if err != nil {
		return out, err
	}
	err = c.call(ctx, http.MethodPost, "/v1/login", body, &out)
	return out, err
}

// Whoami asks who a signer is. sign signs a command as its name to a workflow.
func (c *Client) Whoami(ctx context.Context, sign func(workflow, name string, args []byte) ([]byte, error)) (Caller, error) {
	var out Caller
	body, err := sign(whoamiTo, whoami, []byte("{}"))
	if err != nil {
		return out, err
	}
	err = c.call(ctx, http.MethodPost, "/v1/whoami", body, &out)
	return out, err
}
