package workspaces

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
	"time"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

// TokensPrefix is the prefix of the sessions' own tokens for git servers. The session's
// id follows it. A token that several sessions share is in a folder of its owner.
const TokensPrefix = "tokens"

// TokenWaits is more time than a session takes to begin after its token was stored.
const TokenWaits = time.Hour

var TokenBlob = regexp.MustCompile(`^` + TokensPrefix + `/([a-z0-9][a-z0-9._-]{0,62})/[0-9a-f]{64}$`)

// isToken reports whether a blob is a token. session is the session to which the token
// belongs; "" if it is shared.
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

// A serverToken is a token and the only server that may get it. So nobody can send the
// token to another server by starting a session with the blob's name.
type serverToken struct {
	Server string `json:"server"`
	Token  string `json:"token"`
}

// CheckTokenURL returns an error if a token that is sent to this URL could be read by
// others, or would not be used.
func CheckTokenURL(text string) error {
	if strings.HasPrefix(text, "https://") || loopbackURL(text) {
		return nil
	}
	return fmt.Errorf("a token is for https: to %s it would go in clear, or not at all", text)
}

// CheckToken refuses a text that cannot be a token of a git server. Its error does not
// repeat the text.
func CheckToken(token string) error {
	bad := func(c rune) bool { return c <= ' ' || c > '~' || c == '\\' || c == '\'' }
	if token == "" || len(token) > 1<<10 || strings.HasPrefix(token, "-") || strings.ContainsFunc(token, bad) {
		return errors.New("it is no token: one line of at most 1024 plain characters, the first no dash")
	}
	return nil
}

// StoreToken stores a token for the git server of a repository. The same token gets the
// same name. Either session or folder is set, and the token is deleted together with
// it. A folder is for a token that several sessions share.
func StoreToken(ctx context.Context, st *store.Store, session, folder, repo, token string) (string, error) {
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
		err = fmt.Errorf("%.100q is no folder for a token that several sessions share", folder)
	}
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(serverToken{Server: tokenServer(repo), Token: token})
	if err != nil {
		return "", err
	}
	if folder == "" {
		return st.PutContent(ctx, TokensPrefix+"/"+session, data)
	}
	key, err := st.PutContent(ctx, owned.In(folder, owned.Tokens), data)
	if err == nil {
		err = owned.Kept(ctx, st, folder)
	}
	return key, err
}

// gitToken reads a repository's token from the store; "" if it has none. It refuses a token
// of another server or of another session.
func gitToken(ctx context.Context, s *site.Site, session string, r *Repo) (string, error) {
	if r == nil || r.Token == "" {
		return "", nil
	}
	if err := r.check(); err != nil {
		return "", kit.BadInput("repository: %w", err)
	}
	if owner, _ := isToken(r.Token); owner != "" && owner != session {
		return "", &kit.TypedError{Kind: protocol.ErrTypeWorkspace, Err: fmt.Errorf("the repository's token is that of session %s", owner), Hint: "give this session one of its own: --git-token-file"}
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

// ForgetTokens deletes the tokens of a session that has ended. It only logs errors,
// because maintenance tries again.
func ForgetTokens(ctx context.Context, s *site.Site, session string) {
	all, err := s.Store.List(ctx, TokensPrefix+"/"+session+"/")
	for _, info := range all {
		err = errors.Join(err, s.Store.Delete(ctx, info.Key))
	}
	if err != nil {
		s.Logger.Warn("a token stays in the store", "session", session, "error", err)
	}
}

// PruneTokens deletes the tokens of sessions that have ended without deleting them. The
// token of a session that is about to begin is younger than TokenWaits, and stays.
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

// tokenServer returns the server that may get a repository's token, in a normal form.
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
