package conversation

import (
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// gatewayMark begins what the model gateway says in the provider's place: see
// gateway.Mark. A test compares them.
const gatewayMark = "[model gateway: "

// gatewayKinds maps the gateway's kinds to those of endings.
var gatewayKinds = map[string]string{
	"auth": protocol.EndAuth, "usage_limit": protocol.EndQuota, "rate_limit": protocol.EndRateLimit, "context": "context_window",
	"bad_request": "bad_request", "rejected": "bad_request",
	"failed": protocol.EndNetwork, "cut": protocol.EndNetwork, "garbage": protocol.EndNetwork, "idle": protocol.EndNetwork,
	"timeout": protocol.EndNetwork, "unreachable": protocol.EndNetwork, "refused_token": protocol.EndNetwork,
}

// gatewayBudgets maps the gateway's kinds of used-up budgets to whose they are.
var gatewayBudgets = map[string]string{"budget": protocol.BudgetOfSession, "token_budget": protocol.BudgetOfTokens, "seed_budget": protocol.BudgetOfSeed, "tenant_budget": protocol.BudgetOfTenant}

// budgetEnds is before the time at which the period of a budget ends.
const (
	budgetEnds = ", which ends at "
	budgetTime = "2006-01-02 15:04 MST"
)

// gatewayProblem reads what the model gateway says about a request; nil if it says nothing.
// codex shows the gateway's answer as it is, whatever its status.
func gatewayProblem(message string) *protocol.Problem {
	_, rest, ok := strings.Cut(message, gatewayMark)
	word, _, ok2 := strings.Cut(rest, "] ")
	kind, known := gatewayKinds[word]
	of, budget := gatewayBudgets[word]
	if budget {
		kind, known = protocol.EndBudget, true
	}
	if !ok || !ok2 || !known {
		return nil
	}
	p := problem(kind, message)
	if budget {
		p.Of, p.Hint = of, "the turn goes on when the budget is raised, when an approver accepts that, or when the budget's period ends (`ctl approval list`)"
		if _, after, ok := strings.Cut(rest, budgetEnds); ok && len(after) >= len(budgetTime) {
			p.ResetAt, _ = time.Parse(budgetTime, after[:len(budgetTime)]) // then it is not known
		}
	}
	if kind == protocol.EndNetwork {
		p.Hint = "the worker, which asks the provider for this session, got no answer: check the network of the workers and the base URL of the seed, then send the message again"
	}
	return p
}
