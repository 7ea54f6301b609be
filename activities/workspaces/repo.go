package workspaces

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/process"
	"fairlead.dev/fairlead/internal/protocol"
)

//go:embed repo.sh
var repoScript string

// Exit statuses of repoScript, besides git's.
const (
	repoNoGit   = 61
	repoOutside = 62
)

const commitWord = "fairlead-commit "

func workspaceDir(l protocol.Layout) string { return path.Join(l.Dir, "workspace") }

// clone returns the commit that is checked out, and what a lent agent refused meanwhile. It
// does not repeat a clone that runs or has ended.
func clone(ctx context.Context, s *site.Site, j Job, r Repo, token string) (commit string, refused []string, err error) {
	j.Name, j.script, j.dir = "clone", repoScript, j.Layout.Dir
	known := ""
	if r.KnownHosts != "" {
		known = path.Join(workspaceDir(j.Layout), "known_hosts")
		if err := hostexec.WriteFile(ctx, j.Host, known, []byte(r.KnownHosts), 0o600, &j.fence); err != nil {
			return "", nil, fmt.Errorf("write known hosts: %w", err)
		}
	}
	with := "n"
	if token != "" {
		with, j.secret = "y", []byte(token+"\n")
	}
	work, err := realPath(ctx, j.Host, j.Layout.WorkDir)
	if err != nil {
		return "", nil, err
	}
	j.args = []string{work, r.URL, r.Ref, strconv.Itoa(r.Depth), with, cmp.Or(r.User, "x-access-token"), serverOf(r.URL), known}
	agent, err := lend(ctx, s, &j, r)
	if err != nil {
		return "", nil, err
	}
	defer agent.close()
	for try := 0; ; try++ {
		end, err := j.run(ctx)
		switch {
		case err != nil:
			return "", nil, err
		case end.ok():
			_, after, _ := strings.Cut("\n"+end.Output, "\n"+commitWord)
			commit, _, _ = strings.Cut(after, "\n")
			return commit, agent.refused(), nil
		case end.State != process.Exited && !end.Late && try == 0:
			// The host restarted, or somebody killed the clone. The script first removes
			// what the clone left.
			if err := j.forget(ctx); err != nil {
				return "", nil, err
			}
			continue
		}
		return "", nil, cannotClone(j.Host.Name(), r, end, agent.refused())
	}
}

func realPath(ctx context.Context, h hostexec.Host, dir string) (string, error) {
	res, err := h.Run(ctx, hostexec.Command{Script: `cd -P -- "$1" && pwd -P`, Args: []string{dir}})
	if err != nil {
		return "", fmt.Errorf("resolve the path of %s: %w", dir, err)
	}
	return strings.TrimSuffix(string(res.Stdout), "\n"), nil
}

type agentLender interface {
	LendAgent(ctx context.Context, h hostexec.Host, terms hostexec.AgentTerms) (*hostexec.LentAgent, error)
}

// A borrowed agent is nil if the repository asks for none.
type borrowed struct{ lent *hostexec.LentAgent }

func (b borrowed) close() {
	if b.lent != nil {
		b.lent.Close()
	}
}

// refused returns what the host asked the agent for in vain.
func (b borrowed) refused() []string {
	if b.lent == nil {
		return nil
	}
	return b.lent.Refused()
}

// lend lends a job a key of the worker's SSH agent if the repository asks for it, for
// logins to the repository's server. The job uses a symbolic link, so that another worker
// can lend its own.
func lend(ctx context.Context, s *site.Site, j *Job, r Repo) (borrowed, error) {
	if !r.ForwardAgent {
		return borrowed{}, nil
	}
	no := func(hint string, err error) (borrowed, error) {
		return borrowed{}, &kit.TypedError{Kind: protocol.ErrTypeWorkspace, Err: err, Hint: hint}
	}
	user, server, err := SSHServer(r.URL)
	if err != nil {
		return no("the agent is lent for logins to the server of an ssh URL: leave out --forward-agent, or give such a URL",
			fmt.Errorf("lend %s the SSH agent: %w", j.Host.Name(), err))
	}
	pool, ok := s.Pool.(agentLender)
	if !ok {
		return borrowed{}, fmt.Errorf("%w: this worker's connections cannot forward one", hostexec.ErrNoAgent)
	}
	lent, err := pool.LendAgent(ctx, j.Host, hostexec.AgentTerms{Key: r.AgentKey, Server: server, User: user, KnownHosts: r.KnownHosts})
	switch {
	case errors.Is(err, hostexec.ErrNoAgent):
		return no("give the worker an SSH agent (SSH_AUTH_SOCK) with the key, and let the host's sshd forward it; or use https with --git-token-file", err)
	case errors.Is(err, hostexec.ErrWhichKey):
		return no("name the key with --forward-key SHA256:…, as `ssh-add -l` prints it where the worker runs", err)
	case errors.Is(err, hostexec.ErrWhichServer):
		return no("give the server's known_hosts line, by the name in the URL, with --git-known-hosts FILE; or add it to known_hosts where the worker runs", err)
	case err != nil:
		return borrowed{}, err
	}
	link := path.Join(workspaceDir(j.Layout), "agent")
	_, err = j.Host.Run(ctx, hostexec.Command{Script: `umask 077; mkdir -p -- "${1%/*}" && rm -f -- "$1" && ln -s -- "$2" "$1"`, Args: []string{link, lent.Socket}, Fence: &j.fence})
	if err != nil {
		lent.Close()
		return borrowed{}, fmt.Errorf("show the SSH agent to git: %w", err)
	}
	j.env = map[string]string{"SSH_AUTH_SOCK": link}
	return borrowed{lent}, nil
}

// serverOf returns scheme, host and port: a token's server.
func serverOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// gitTrouble maps errors of git and ssh to hints.
var gitTrouble = []struct {
	says *regexp.Regexp
	hint string
}{
	{regexp.MustCompile(`(?i)remote branch .* not found|couldn't find remote ref|unable to read tree|not our ref|reference is not a tree`), "see --ref: a branch, a tag, or a whole commit id that the server has"},
	{regexp.MustCompile(`(?i)could not read (username|password)|authentication failed|permission denied|invalid credentials|HTTP 40[13]|error: 40[13]`), "give it credentials: --git-token-file for https, --forward-agent for ssh"},
	{regexp.MustCompile(`(?i)host key verification failed|no .* host key is known`), "the host does not know the git server's key: --git-known-hosts, or known_hosts on the host"},
	{regexp.MustCompile(`(?i)could not resolve|connection refused|timed out|network is unreachable|failed to connect|operation too slow|connection reset`), "the host must reach the git server: try `ctl host exec HOST -- git ls-remote URL`"},
	{regexp.MustCompile(`(?i)no space left`), "make room below the host's root"},
	{regexp.MustCompile(`(?i)not found|does not exist|does not appear to be a git repository|no such file`), "check the URL; a private repository that nobody logs in to is said not to be there: --git-token-file, --forward-agent"},
}

func cannotClone(host string, r Repo, end jobEnd, refused []string) error {
	e := &kit.TypedError{Kind: protocol.ErrTypeWorkspace, Hint: "see what git says; `ctl host exec " + host + " -- git ls-remote URL` tries it by hand"}
	for _, t := range gitTrouble {
		if t.says.MatchString(end.Output) {
			e.Hint = t.hint
			break
		}
	}
	why := lastLines(end.Output, 1<<10)
	switch {
	case end.Late:
		e.Hint = "raise --clone-timeout, or bring less of it with --depth"
		why = fmt.Sprintf("%v: %s", errJobLate, why)
	case end.State != process.Exited:
		why = "git ended twice without an exit status; the host may have restarted"
	case end.Code == repoNoGit:
		e.Hint = "install git on the host"
	case end.Code == repoOutside:
		e.Hint = "a symbolic link has taken the work folder's place; look who made it"
	}
	e.Err = fmt.Errorf("clone %s on %s: %s%s", r.URL, host, why, refusals(refused))
	if len(refused) > 0 {
		e.Hint = hintRefused
	}
	return e
}

const hintRefused = "the agent is lent for logins to the URL's server alone, with one key, by an ssh of OpenSSH 8.9 or newer: for submodules and jump hosts elsewhere, or an older ssh, use https with --git-token-file"

// refusals tells what a lent agent refused.
func refusals(refused []string) string {
	if len(refused) == 0 {
		return ""
	}
	return "; the lent SSH agent refused this: " + strings.Join(refused, "; ")
}
