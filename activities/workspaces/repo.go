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

// clone returns the commit that is checked out. It does not repeat a clone that runs or has
// ended.
func clone(ctx context.Context, s *site.Site, j Job, r Repo, token string) (commit string, err error) {
	j.Name, j.script, j.dir = "clone", repoScript, j.Layout.Dir
	known := ""
	if r.KnownHosts != "" {
		known = path.Join(workspaceDir(j.Layout), "known_hosts")
		if err := hostexec.WriteFile(ctx, j.Host, known, []byte(r.KnownHosts), 0o600, &j.fence); err != nil {
			return "", fmt.Errorf("write known hosts: %w", err)
		}
	}
	with := "n"
	if token != "" {
		with, j.secret = "y", []byte(token+"\n")
	}
	work, err := realPath(ctx, j.Host, j.Layout.WorkDir)
	if err != nil {
		return "", err
	}
	j.args = []string{work, r.URL, r.Ref, strconv.Itoa(r.Depth), with, cmp.Or(r.User, "x-access-token"), serverOf(r.URL), known}
	back, err := lend(ctx, s, &j, r)
	if err != nil {
		return "", err
	}
	defer back()
	for try := 0; ; try++ {
		end, err := j.run(ctx)
		switch {
		case err != nil:
			return "", err
		case end.ok():
			_, after, _ := strings.Cut("\n"+end.Output, "\n"+commitWord)
			commit, _, _ = strings.Cut(after, "\n")
			return commit, nil
		case end.State != process.Exited && !end.Late && try == 0:
			// The host restarted, or somebody killed the clone. The script first removes
			// what the clone left.
			if err := j.forget(ctx); err != nil {
				return "", err
			}
			continue
		}
		return "", cannotClone(j.Host.Name(), r, end)
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
	LendAgent(ctx context.Context, h hostexec.Host) (*hostexec.LentAgent, error)
}

// lend lends a job the worker's SSH agent if the repository asks for it. The job uses a
// symbolic link, so that another worker can lend its own.
func lend(ctx context.Context, s *site.Site, j *Job, r Repo) (back func(), err error) {
	if !r.ForwardAgent {
		return func() {}, nil
	}
	pool, ok := s.Pool.(agentLender)
	if !ok {
		return nil, fmt.Errorf("%w: this worker's connections cannot forward one", hostexec.ErrNoAgent)
	}
	lent, err := pool.LendAgent(ctx, j.Host)
	if errors.Is(err, hostexec.ErrNoAgent) {
		return nil, &kit.TypedError{Kind: protocol.ErrTypeWorkspace, Err: err, Hint: "give the worker an SSH agent (SSH_AUTH_SOCK) with the key, and let the host's sshd forward it; or use https with --git-token-file"}
	}
	if err != nil {
		return nil, err
	}
	link := path.Join(workspaceDir(j.Layout), "agent")
	_, err = j.Host.Run(ctx, hostexec.Command{Script: `umask 077; mkdir -p -- "${1%/*}" && rm -f -- "$1" && ln -s -- "$2" "$1"`, Args: []string{link, lent.Socket}, Fence: &j.fence})
	if err != nil {
		lent.Close()
		return nil, fmt.Errorf("show the SSH agent to git: %w", err)
	}
	j.env = map[string]string{"SSH_AUTH_SOCK": link}
	return lent.Close, nil
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

func cannotClone(host string, r Repo, end jobEnd) error {
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
	e.Err = fmt.Errorf("clone %s on %s: %s", r.URL, host, why)
	return e
}
