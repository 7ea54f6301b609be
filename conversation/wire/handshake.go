package wire

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// ClientInfo is how we introduce ourselves. codex reports Name to the model's provider as
// the originator.
type ClientInfo struct {
	Name    string `json:"name"`
	Title   string `json:"title,omitempty"`
	Version string `json:"version"`
}

// DefaultClient is used when none is given.
var DefaultClient = ClientInfo{Name: "fairlead", Title: "Fairlead", Version: "0.1.0"}

func (c ClientInfo) orDefault() ClientInfo {
	if c.Name == "" {
		return DefaultClient
	}
	return c
}

// Server is how codex introduces itself.
type Server struct {
	UserAgent string `json:"userAgent"`
	Version   string `json:"-"` // from UserAgent, e.g. 0.169.0
	CodexHome string `json:"codexHome"`
	Family    string `json:"platformFamily"` // unix, windows
	OS        string `json:"platformOs"`     // linux, macos, …
}

// Handshake opens a conversation. If codex is outside the supported versions, the error is
// a *VersionError, Server is filled, and the conversation is not open.
func Handshake(ctx context.Context, c *Conn, client ClientInfo) (Server, error) {
	s, err := introduce(ctx, c, client)
	if err != nil {
		return s, err
	}
	if err := CheckVersion(s.Version); err != nil {
		return s, err
	}
	return s, greet(ctx, c)
}

// HandshakeAny is Handshake without the version check.
func HandshakeAny(ctx context.Context, c *Conn, client ClientInfo) (Server, error) {
	s, err := introduce(ctx, c, client)
	if err != nil {
		return s, err
	}
	return s, greet(ctx, c)
}

func introduce(ctx context.Context, c *Conn, client ClientInfo) (Server, error) {
	var s Server
	if err := c.Call(ctx, MethodInitialize, Initialize(client), &s); err != nil {
		return Server{}, fmt.Errorf("open the conversation with codex: %w", err)
	}
	s.Version = VersionOf(s.UserAgent)
	return s, nil
}

func greet(ctx context.Context, c *Conn) error {
	if err := c.Notify(ctx, MethodInitialized, nil); err != nil {
		return fmt.Errorf("open the conversation with codex: %w", err)
	}
	return nil
}

// Initialize returns the parameters of initialize.
func Initialize(client ClientInfo) InitializeParams {
	return InitializeParams{
		ClientInfo:   client.orDefault(),
		Capabilities: capabilities{ExperimentalAPI: true}, // for permission profiles and cleaning terminals
	}
}

// The User-Agent reads `name/0.169.0 (Debian 12.0.0; x86_64) …`.
var agentVersion = regexp.MustCompile(`/(\d+\.\d+\.\d+[0-9A-Za-z.+-]*)`)

// VersionOf returns the version in codex's user agent, or "".
func VersionOf(userAgent string) string {
	m := agentVersion.FindStringSubmatch(userAgent)
	if m == nil {
		return ""
	}
	return m[1]
}

// Numbers reads major, minor and patch, and ignores the rest.
func Numbers(v string) (n [3]int, ok bool) {
	parts := strings.SplitN(v, ".", 3)
	if len(parts) != 3 {
		return n, false
	}
	if i := strings.IndexFunc(parts[2], func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		parts[2] = parts[2][:i]
	}
	for i, p := range parts {
		var err error
		if n[i], err = strconv.Atoi(p); err != nil {
			return n, false
		}
	}
	return n, true
}
