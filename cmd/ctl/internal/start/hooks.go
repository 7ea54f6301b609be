package start

import (
	"time"

	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/strictyaml"
)

type hooksFile struct {
	AfterCreate  string `yaml:"after_create"`
	BeforeRun    string `yaml:"before_run"`
	AfterRun     string `yaml:"after_run"`
	BeforeRemove string `yaml:"before_remove"`
	Timeout      string `yaml:"timeout"`
}

const maxHooksFile = 96 << 10

func readHooks(name string) (workspaces.Hooks, error) {
	var h workspaces.Hooks
	data, err := core.ReadSmall("--hooks", name, maxHooksFile)
	if err != nil {
		return h, err
	}
	var f hooksFile
	if read := strictyaml.Read(data, &f); len(read.Problems) > 0 {
		return h, core.Usage("%s", strictyaml.Tell("--hooks "+name, read.Problems)).
			Hinted("it may have after_create, before_run, after_run, before_remove, each a script, and timeout, e.g. 60s")
	}
	h = workspaces.Hooks{AfterCreate: f.AfterCreate, BeforeRun: f.BeforeRun, AfterRun: f.AfterRun, BeforeRemove: f.BeforeRemove}
	if f.Timeout != "" {
		if h.Timeout, err = time.ParseDuration(f.Timeout); err != nil || h.Timeout <= 0 {
			return h, core.Usage("--hooks %s: timeout %q is not a duration such as 60s", name, f.Timeout)
		}
	}
	if h == (workspaces.Hooks{Timeout: h.Timeout}) {
		return h, core.Usage("--hooks %s: there is no hook in it", name)
	}
	return h, nil
}
