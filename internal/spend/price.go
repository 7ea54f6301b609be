package spend

import (
	"strings"

	"fairlead.dev/fairlead/internal/protocol"
)

// A Price is what a million tokens of a model cost. Cached is that of input which the provider
// had in its cache.
type Price struct{ Input, Cached, Output float64 }

// Of returns what a request costs, protocol.MostMoney at most.
func (p Price) Of(input, cached, output int64) protocol.Money {
	cached = min(cached, input)
	return min(protocol.Cost(input-cached, p.Input)+protocol.Cost(cached, p.Cached)+protocol.Cost(output, p.Output), protocol.MostMoney)
}

// Prices are those of models, by their names. A name that ends in * is a beginning; the longest
// counts.
type Prices map[string]Price

// Of returns the price of a model, if it is known.
func (p Prices) Of(model string) (Price, bool) {
	if one, ok := p[model]; ok {
		return one, true
	}
	best, found := "", false
	for name := range p {
		if start, ok := strings.CutSuffix(name, "*"); ok && strings.HasPrefix(model, start) && (!found || len(name) > len(best)) {
			best, found = name, true
		}
	}
	return p[best], found
}

// A Tariff has what models cost.
type Tariff struct {
	Currency string
	Prices   Prices
	// Budgets are those of seeds and tenants.
	Budgets map[Account]Limits
	// SessionRate is how many requests each session may begin in a minute of the clock; 0 means no
	// bound.
	SessionRate int64
	// Unpriced lets a budget in money permit models without a price, which then cost nothing.
	Unpriced bool
}
