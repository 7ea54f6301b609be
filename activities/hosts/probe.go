package hosts

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
)

// A Probe is a short-lived codex app-server on a host that runs commands in its sandbox as
// sessions do.
type Probe struct {
	stream  hostexec.Stream
	Conn    *wire.Conn
	server  wire.Server
	took    time.Duration // start and handshake
	workDir string
	kill    context.CancelFunc
}

const probeTimeout = 60 * time.Second

// maxProbeLine bounds a line of a probe's codex, in bytes.
const maxProbeLine = 4 << 20

// TimedOut is the exit status of a command that took longer than probeCommand (measured
// with codex 0.169).
const (
	probeCommand = 40 * time.Second
	TimedOut     = 124
)

// UnsetKeys are variables that could give codex a credential or a server that is not the
// seed's, or send the seed's tokens elsewhere.
var UnsetKeys = []string{
	"OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN", "OPENAI_BASE_URL", "OPENAI_ORGANIZATION", "OPENAI_PROJECT",
	"OPENAI_ORG_ID", "CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED", "CODEX_THREAD_ID", "CODEX_INTERNAL_ORIGINATOR_OVERRIDE",
	"CODEX_SQLITE_HOME",
	"CODEX_REFRESH_TOKEN_URL_OVERRIDE", "CODEX_REVOKE_TOKEN_URL_OVERRIDE", "CODEX_AUTHAPI_BASE_URL", "CODEX_AGENT_IDENTITY_AUTHAPI_BASE_URL",
	"CODEX_APP_SERVER_LOGIN_ISSUER", "CODEX_APP_SERVER_CHATGPT_BASE_URL",
}

// startProbe starts codex with an existing CODEX_HOME. If that is a session's, fence must
// be the session's too. The caller must close the probe.
func startProbe(ctx context.Context, s *site.Site, h hostexec.Host, codex, codexHome, tmp, workDir string, fence *hostexec.Fence) (*Probe, error) {
	begin := time.Now()
	ctx, kill := context.WithCancel(ctx)
	st, err := h.Start(ctx, hostexec.Command{
		Script: `unset ` + strings.Join(UnsetKeys, " ") + `
CODEX_HOME=$2 TMPDIR=$3
export CODEX_HOME TMPDIR
cd "$4" && exec "$1" app-server`,
		Args:  []string{codex, codexHome, tmp, workDir},
		Fence: fence, FenceAtStart: true,
	})
	if err != nil {
		kill()
		return nil, fmt.Errorf("start codex app-server: %w", err)
	}
	p := &Probe{stream: st, Conn: wire.NewConn(st, wire.ConnConfig{MaxLine: maxProbeLine}), workDir: workDir, kill: kill}
	handshake := wire.Handshake
	if s.AnyVersion {
		handshake = wire.HandshakeAny
	}
	p.server, err = handshake(ctx, p.Conn, wire.DefaultClient)
	if err != nil {
		said := kit.LastOf(strings.TrimSpace(string(st.Stderr())), 1<<10)
		p.Close()
		if ended := st.Wait(); errors.Is(ended, hostexec.ErrFenced) || errors.Is(ended, hostexec.ErrFlood) {
			return nil, ended
		}
		if said != "" {
			err = fmt.Errorf("%w; codex said: %s", err, said)
		}
		return nil, err
	}
	p.took = time.Since(begin)
	return p, nil
}

// Close waits until codex has ended: its CODEX_HOME is about to be used or removed.
func (p *Probe) Close() {
	late := time.AfterFunc(5*time.Second, p.kill)
	defer late.Stop()
	defer p.kill()
	// the results are known, or the stream is dead already
	_ = p.stream.CloseWrite()
	<-p.Conn.Done()
	_ = p.stream.Wait()
	_ = p.Conn.Close()
}

type probeExec struct {
	Command       []string       `json:"command"`
	CWD           string         `json:"cwd"`
	TimeoutMS     int            `json:"timeoutMs"`
	Profile       string         `json:"permissionProfile,omitempty"`
	SandboxPolicy map[string]any `json:"sandboxPolicy,omitempty"`
}

// ProbeResult is what a probe of a sandbox printed.
type ProbeResult struct {
	ExitCode int    `json:"exitCode"`
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
}

// run runs a command under the permission profile or, without one, in the plain sandbox.
func (p *Probe) run(ctx context.Context, sandbox, profile string, argv ...string) (ProbeResult, error) {
	in := probeExec{Command: argv, CWD: p.workDir, TimeoutMS: int(probeCommand.Milliseconds()), Profile: profile}
	if profile == "" {
		kind := map[string]string{"read-only": "readOnly", "workspace-write": "workspaceWrite"}[sandbox]
		if kind == "" {
			kind = "dangerFullAccess"
		}
		in.SandboxPolicy = map[string]any{"type": kind}
	}
	var out ProbeResult
	err := p.Conn.Call(ctx, "command/exec", in, &out)
	return out, err
}

const hintSandbox = "commands cannot be confined on this host (user namespaces are switched off, as in many containers): allow them there, " +
	"or run sessions with --sandbox danger-full-access and --approval-policy untrusted"

// confines proves that codex can run a command in its plain sandbox.
func (p *Probe) confines(ctx context.Context, sandbox string) error {
	res, err := p.run(ctx, sandbox, "", "/bin/sh", "-c", "echo fl-confined")
	if err != nil {
		return fmt.Errorf("run a command in the sandbox: %w", err)
	}
	if strings.TrimSpace(res.Stdout) == "fl-confined" {
		return nil
	}
	said := kit.LastOf(strings.TrimSpace(res.Stderr+res.Stdout), 512)
	return &kit.TypedError{Kind: protocol.ErrTypeSandbox, Hint: hintSandbox,
		Err: fmt.Errorf("the sandbox does not start (exit status %d): %s", res.ExitCode, said)}
}
