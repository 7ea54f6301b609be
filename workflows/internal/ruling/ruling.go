package ruling

import (
	"cmp"
	"fmt"
	"strings"

	"fairlead.dev/fairlead/internal/policy"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// A Ruling is a policy that applies to a session. Of is its owner.
type Ruling struct {
	Of, Text string
	*policy.Policy
}

// Owners of policies.
const (
	OfSession = "session"
	OfSeed    = "seed"
)

// ReadRuling parses a policy that was valid when it was set, perhaps for another version.
// If this worker cannot read it, the ruling refuses everything.
func ReadRuling(of, text string) Ruling {
	//workflowcheck:ignore // a pure function of the text: no clock, no I/O
	parsed, err := policy.Parse([]byte(text))
	if err != nil {
		parsed = policy.Refusing([]byte(text), err.Error())
	}
	return Ruling{of, text, parsed}
}

// CheckPolicy refuses a policy that is too long or cannot be parsed.
func CheckPolicy(text string) error {
	if text == "" {
		return nil
	}
	if len(text) > protocol.MaxPolicy {
		return fmt.Errorf("its policy is %d bytes long, at most %d", len(text), protocol.MaxPolicy)
	}
	//workflowcheck:ignore // a pure function of the text: no clock, no I/O
	if _, err := policy.Parse([]byte(text)); err != nil {
		return fmt.Errorf("its policy: %.2000v", err)
	}
	return nil
}

// View shows a policy. broken is why a worker could not use it, or empty.
func (r Ruling) View(broken string) *protocol.PolicyView {
	v := &protocol.PolicyView{Digest: r.Digest, State: protocol.PolicyActive, RequesterMayDecide: r.RequesterMayDecide}
	if why := cmp.Or(r.Broken(), broken); why != "" {
		v.State, v.Error = protocol.PolicyBroken, why
	}
	if allowed := r.Allowed(); allowed != nil {
		v.Approvers, v.Required = allowed.Principals(), r.Required
	}
	if r.Expiry > 0 {
		v.Expiry = r.Expiry.String()
	}
	return v
}

// IsThem reports whether the signer may be the requester. Equal names before the @ are
// enough: ctl may give ann@laptop where a policy has ann@example.com. To take two people
// for one is safer than one for two.
func (r Ruling) IsThem(who, by string) bool {
	one, _, _ := strings.Cut(who, "@")
	other, _, _ := strings.Cut(by, "@")
	return r.Allowed().Same(who, by) || r.Allowed().Same(who, other) || strings.EqualFold(one, other)
}

// Wants describes whose signatures a policy takes.
func (r Ruling) Wants() string {
	names := r.Allowed().Principals()
	if r.Allowed().Authority() {
		names = append(names, "whom an authority certifies")
	}
	return fmt.Sprintf("by the policy of the %s, %d of %s", r.Of, r.Required, kit.Cut(strings.Join(names, ", "), 500))
}
