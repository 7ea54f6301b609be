package config

import (
	"strings"
	"testing"
)

func TestPricesOfModelsAreChecked(t *testing.T) {
	c, err := Parse("w.yaml", []byte("models:\n  currency: EUR\n  unknown: free\n  prices:\n    gpt-6: {input: 1.25, output: 10}\n    gpt-5*: {input: 1, cached: 0.1, output: 2}\n  budgets:\n    - {seed: team, every: day, money: 2.50, tokens: 1000}\n    - {tenant: team, requests: 60}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if m := c.Models; m.Currency != "EUR" || m.Unknown != UnknownFree || m.Prices["gpt-6"].Output != 10 || m.Prices["gpt-6"].Cached != nil || *m.Prices["gpt-5*"].Cached != 0.1 {
		t.Errorf("%+v", m)
	}
	if b := c.Models.Budgets; len(b) != 2 || b[0] != (ModelBudget{Seed: "team", Every: "day", Money: "2.50", Tokens: 1000}) || b[1] != (ModelBudget{Tenant: "team", Requests: 60}) {
		t.Errorf("%+v", b)
	}
	for text, want := range map[string]string{
		"{unknown: maybe}": "neither refuse nor free",
		"{currency: 5}":    "no currency",
		"{prices: {gpt-6: {input: -1, output: 1}}}":                 "not between",
		"{prices: {gpt-6: {input: .nan, output: 1}}}":               "not between",
		"{prices: {'g*6': {input: 1, output: 1}}}":                  "no name of a model",
		"{prices: {gpt-6: {inputs: 1}}}":                            "inputs",
		"{budgets: [{tokens: 5}]}":                                  "name a seed or a tenant",
		"{budgets: [{seed: a, tenant: b, tokens: 5}]}":              "name a seed or a tenant",
		"{budgets: [{seed: A, tokens: 5}]}":                         "no name",
		"{budgets: [{seed: a}]}":                                    "none of money, tokens and requests",
		"{budgets: [{seed: a, tokens: -5}]}":                        "negative",
		"{budgets: [{seed: a, money: much}]}":                       "no amount",
		"{budgets: [{seed: a, money: 5}]}":                          "needs models.prices",
		"{budgets: [{seed: a, tokens: 5, every: week}]}":            "neither day nor month",
		"{budgets: [{seed: a, tokens: 5}, {seed: a, requests: 5}]}": "another budget",
	} {
		if _, err := Parse("w.yaml", []byte("models: "+text+"\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
