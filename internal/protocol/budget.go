package protocol

import "encoding/json"

// Whose budget a Problem is about.
const (
	BudgetOfSession = "session" // in money
	BudgetOfTokens  = "tokens"  // of the session
	BudgetOfSeed    = "seed"
	BudgetOfTenant  = "tenant"
)

// BudgetAsked is the Args of a request of KindBudget: a turn pauses because a budget is used up.
type BudgetAsked struct {
	// Of says whose budget it is.
	Of  string `json:"of"`
	Why string `json:"why"`
	// Limit and Raised are what a session may spend now, and after an accept. An accept does not
	// raise the budget of a seed or a tenant: the turn only tries again.
	Limit  Money `json:"limit,omitempty"`
	Raised Money `json:"raised,omitempty"`
	// LimitTokens and RaisedTokens are the same of a session's budget in tokens.
	LimitTokens  int64 `json:"limit_tokens,omitempty"`
	RaisedTokens int64 `json:"raised_tokens,omitempty"`
}

// AskedBudget reads the Args of a request of KindBudget.
func AskedBudget(args string) (b BudgetAsked, err error) {
	err = json.Unmarshal([]byte(args), &b)
	return b, err
}
