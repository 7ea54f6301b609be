package main

import (
	"encoding/json"
	"testing"
)

func states(t *testing.T, text string) map[string]carry {
	var state map[string]any
	if err := json.Unmarshal([]byte(text), &state); err != nil {
		t.Fatal(err)
	}
	return map[string]carry{"session/one": {run: "r", state: state}}
}

// The time of the next look may move on, but not back, and it may not be lost.
func TestATimeMayMoveOn(t *testing.T) {
	const before = `{"look_at": "2026-11-29T21:25:55.73Z"}`
	for after, same := range map[string]bool{
		`{"look_at": "2026-11-29T21:30:56Z"}`: true,
		`{"look_at": "2026-11-29T21:20:56Z"}`: false,
		`{"look_at": "0001-01-01T00:00:00Z"}`: false,
		`{}`:                                  false,
	} {
		if err := equal(states(t, before), states(t, after)); (err == nil) != same {
			t.Errorf("%s: %v", after, err)
		}
	}
}

// A state that lost a field, or has another value, is noticed; a turn that goes on is not.
func TestAStateThatChangedIsNoticed(t *testing.T) {
	const before = `{"pump_n": 3, "prefix": "p3", "follow": {"rules": {"seed": "team"}}, "turns": [{"n": 1}]}`
	for after, same := range map[string]bool{
		before: true,
		`{"pump_n": 4, "prefix": "p4", "follow": {"rules": {"seed": "team"}}, "turns": [{"n": 1}], "new": 1}`: true,
		`{"pump_n": 3, "prefix": "p3", "follow": {}, "turns": [{"n": 1}]}`:                                    false,
		`{"pump_n": 3, "prefix": "p3", "turns": [{"n": 1}]}`:                                                  false,
		`{"pump_n": 3, "prefix": "p3", "follow": {"rules": {"seed": "team"}}, "turns": [{"n": 2}]}`:           false,
		`{"pump_n": 3, "prefix": "p3", "follow": {"rules": {"seed": "team"}}}`:                                false,
		`{}`: false,
	} {
		if err := equal(states(t, before), states(t, after)); (err == nil) != same {
			t.Errorf("%s: %v", after, err)
		}
	}
}
