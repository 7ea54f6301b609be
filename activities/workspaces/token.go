package workspaces

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

// TokensPrefix and a session's id begin the names of its own tokens. Shared tokens are in
// their owners' folders.
const TokensPrefix = "tokens"

// TokenWaits is longer than a session takes to begin after its token was stored.
const TokenWaits = time.Hour

var TokenBlob = owned.SessionToken

// isToken returns the token's session, or "" if it is shared.
func isToken(blob string) (session string, ok bool) {
	if m := TokenBlob.FindStringSubmatch(blob); m != nil {
		return m[1], true
	}
	return "", owned.Is(blob, owned.Tokens)
}

func isOurToken(blob string) bool {
	_, ok := isToken(blob)
	return ok
}

// A serverToken names the only server that may get the token, so that nobody can have it
// sent elsewhere by naming the blob.
type serverToken struct {
	Server string `json:"server"`
	Token  string `json:"token"`
}

// CheckTokenURL refuses a URL where others could read a token, or git would not use it.
func CheckTokenURL(text string) error {
	if strings.HasPrefix(text, "https://") || loopbackURL(text) {
		return nil
	}
	return fmt.Errorf("a token needs an https URL: for %s it would be sent unencrypted, or not be used", text)
}

// CheckToken refuses what cannot be a token. Its error does not repeat it.
func CheckToken(token string) error {
	bad := func(c rune) bool { return c <= ' ' || c > '~' || c == '\\' || c == '\'' }
	if token == "" || len(token) > 1<<10 || strings.HasPrefix(token, "-") || strings.ContainsFunc(token, bad) {
		return errors.New("not a valid token: want one line of 1 to 1024 printable ASCII characters, without spaces, ' and \\, not beginning with a dash")
	}
	return nil
}

// StoreToken stores a token for a repository's server; equal tokens get the same name. The
// token is deleted with session or folder, of which one is set; folder is for a token that
// sessions share. by is the principal who stores a session's token, or empty.
func StoreToken(ctx context.Context, st *store.Store, session, folder, repo, token, by string) (string, error) {
	err := CheckToken(token)
	if err == nil {
		err = CheckRepoURL(repo)
	}
	if err == nil {
		err = CheckTokenURL(repo)
	}
	if err == nil && folder == "" {
		err = kit.CheckID("session", session)
	}
	if _, ok := owned.OwnerOf(folder); err == nil && folder != "" && (!ok || session != "") {
		err = fmt.Errorf("%.100q is not the folder of a batch or schedule, or a session is given too", folder)
	}
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(serverToken{Server: tokenServer(repo), Token: token})
	if err != nil {
		return "", err
	}
	if folder == "" {
		to := TokensPrefix + "/" + session
		if by != "" {
			to += "/" + owned.Tag(by)
		}
		return st.PutContent(ctx, to, data)
	}
	key, err := st.PutContent(ctx, owned.In(folder, owned.Tokens), data)
	if err == nil {
		err = owned.Kept(ctx, st, folder)
	}
	return key, err
}

// gitToken reads a repository's token; "" if none. It refuses one of another server or
// session.
func gitToken(ctx context.Context, s *site.Site, session string, r *Repo) (string, error) {
	if r == nil || r.Token == "" {
		return "", nil
	}
	if err := r.check(); err != nil {
		return "", kit.BadInput("repository: %w", err)
	}
	if owner, _ := isToken(r.Token); owner != "" && owner != session {
		return "", &kit.TypedError{Kind: protocol.ErrTypeWorkspace, Err: fmt.Errorf("the repository's token belongs to session %s", owner), Hint: "give this session one of its own: --git-token-file"}
	}
	data, err := s.Store.Get(ctx, r.Token)
	if errors.Is(err, store.ErrNotFound) {
		return "", &kit.TypedError{Kind: protocol.ErrTypeWorkspace, Err: errors.New("the repository's token is not in the store any more"), Hint: "start another session with --git-token-file"}
	}
	if err != nil {
		return "", fmt.Errorf("read the repository's token: %w", err)
	}
	var t serverToken
	if err := json.Unmarshal(data, &t); err != nil {
		return "", &kit.TypedError{Kind: protocol.ErrTypeWorkspace, Err: errors.New("the repository's token does not say which server it is for"), Hint: "start another session with --git-token-file"}
	}
	if here := tokenServer(r.URL); t.Server != here {
		return "", &kit.TypedError{Kind: protocol.ErrTypeWorkspace, Err: fmt.Errorf("the repository's token is for %s, and %s does not get it", t.Server, here), Hint: "give one for this server: --git-token-file"}
	}
	return t.Token, CheckToken(t.Token)
}

// ForgetTokens deletes an ended session's tokens. It only logs errors; maintenance retries.
func ForgetTokens(ctx context.Context, s *site.Site, session string) {
	all, err := s.Store.List(ctx, TokensPrefix+"/"+session+"/")
	for _, info := range all {
		err = errors.Join(err, s.Store.Delete(ctx, info.Key))
	}
	if err != nil {
		s.Logger.Warn("a token stays in the store", "session", session, "error", err)
	}
}

// PruneTokens deletes tokens that ended sessions left. Tokens younger than TokenWaits stay:
// their session may be about to begin.
func PruneTokens(ctx context.Context, s *site.Site, in protocol.PruneSnapshotsInput) error {
	if in.DryRun || in.Session != "" {
		return nil
	}
	all, err := s.Store.List(ctx, TokensPrefix+"/")
	if err != nil {
		return err
	}
	for _, info := range all {
		m := TokenBlob.FindStringSubmatch(info.Key)
		if m == nil || s.Now().Sub(info.ModTime) <= TokenWaits {
			continue
		}
		if now, err := s.AskSession(ctx, m[1]); err != nil || now.Runs {
			continue
		}
		if err := s.Store.Delete(ctx, info.Key); err != nil {
			return err
		}
	}
	return nil
}

// tokenServer returns the server of a repository's token, normalized.
func tokenServer(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	host, port := strings.ToLower(u.Hostname()), u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(host, port)
}
