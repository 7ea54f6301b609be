package start

import (
	"strings"
	"testing"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/workflows/session"
)

func TestLabelsAndSelectorsAreToldApart(t *testing.T) {
	f := placeFlags{labels: []string{"gpu=no", "mem>=32", "!spot", "os=linux", "gpu=no"}, prefer: []string{"disk=nvme"}, tenant: "release", priority: 1}
	var opt session.Options
	if err := f.set(&opt); err != nil {
		t.Fatal(err)
	}
	if len(opt.Labels) != 2 || opt.Labels["gpu"] != "no" || opt.Labels["os"] != "linux" || strings.Join(opt.Select, " ") != "mem>=32 !spot" ||
		strings.Join(opt.Rather, " ") != "disk=nvme" || opt.Tenant != "release" || opt.Priority != 1 {
		t.Errorf("they are %+v", opt)
	}
	for want, bad := range map[string]placeFlags{
		"no host has both":           {labels: []string{"gpu=no", "gpu=yes"}, priority: 3},
		"not a number":               {labels: []string{"mem>=much"}, priority: 3},
		"--prefer: selector":         {prefer: []string{"=v"}, priority: 3},
		"is not a tenant":            {tenant: "The Team", priority: 3},
		"want 1 (first) to 5 (last)": {priority: 6},
	} {
		err := bad.set(&session.Options{})
		if core.ExitCode(err) != core.ExitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", bad, err, want)
		}
	}
}
