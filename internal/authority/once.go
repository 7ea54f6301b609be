package authority

import (
	"encoding/json"
	"reflect"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/protocol"
)

type gatedKey struct{}

// Remember says where a workflow remembers the signed updates that it took, so that each
// counts once. It is part of the carried state. Call it before SetUpdateHandler.
func Remember(ctx workflow.Context, n *command.Nonces) {
	if g, ok := ctx.Value(gatedKey{}).(*gated); ok {
		g.nonces = n
	}
}

// repeated refuses a signed update that was given before.
func (g *gated) repeated(name string, args []any) error {
	if a := authIn(args); a != nil && g.nonces != nil && !g.nonces.Fresh(a) {
		return refusal(name, Verdict{Refused: "it was given before, and counts once; or it was signed before the first command that is remembered here: give it again"})
	}
	return nil
}

// took remembers a signed update.
func (g *gated) took(ctx workflow.Context, args []any) {
	if a := authIn(args); a != nil && g.nonces != nil {
		now := workflow.Now(ctx)
		g.nonces.First(a, now)
		g.nonces.Use(a, now)
	}
}

func authIn(args []any) *protocol.Auth {
	if len(args) == 1 {
		if c, ok := args[0].(interface{ CommandAuth() *protocol.Auth }); ok {
			return c.CommandAuth()
		}
	}
	return nil
}

// authOf returns who signed an update, also one whose handler takes it as JSON, or nil.
func authOf(args []any) *protocol.Auth {
	if a := authIn(args); a != nil || len(args) != 1 {
		return a
	}
	raw, ok := args[0].(json.RawMessage)
	if !ok {
		return nil
	}
	//workflowcheck:ignore // a pure function
	_, auth, err := command.Plain(raw)
	if err != nil {
		return nil
	}
	return auth
}

// failing returns zero results and, as the last one, an error.
func failing(out []reflect.Type, err error) (res []reflect.Value) {
	for _, t := range out[:len(out)-1] {
		res = append(res, reflect.Zero(t))
	}
	return append(res, reflect.ValueOf(&err).Elem())
}
