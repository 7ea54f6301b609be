package authority

import (
	"slices"
	"testing"

	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
)

// A tunnel is for those with the verb, and whoever tries without it is on record.
func TestATunnelIsForThoseWithTheVerbOnly(t *testing.T) {
	for _, who := range []string{"mallory", "nobody"} {
		if r := as(t, who, "host", "tunnel", "web-1", "8080"); r.Code == 0 {
			t.Errorf("%s: %v", who, r)
		}
	}
	for _, who := range []string{"vera", "olaf", "bob"} { // a viewer, an operator, an approver
		e2e.Until(t, "the record that "+who+" was refused", func() (bool, error) {
			// Of many refusals within seconds, only some are kept.
			mustNot(t, who, "no binding that names "+who+" allows host.tunnel", "host", "tunnel", "web-1", "8080")
			all, err := lab.Lines[audit.Record](e2e.Within(t), e2e.Lab, "audit", "list", "--workflow", "host/web-1/tunnel")
			return slices.ContainsFunc(all, func(r audit.Record) bool {
				return r.Verb == "host.tunnel" && r.Outcome == audit.Refused && r.Principal == who && r.Object == "host/web-1/tunnel"
			}), err
		})
	}
}
