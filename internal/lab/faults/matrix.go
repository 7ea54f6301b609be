package main

import (
	"fmt"
	"slices"
	"time"

	"fairlead.dev/fairlead/internal/lab/scenario"
)

// What must not happen to a session that a fault strikes.
const (
	eventLost      = "event lost"
	eventRepeated  = "event repeated"
	answerLost     = "answer lost"
	answerRepeated = "answer repeated"
	leftOver       = "left over"
	wrong          = scenario.Wrong
)

var sessionFindings = []string{eventLost, eventRepeated, answerLost, answerRepeated, leftOver, wrong}

var sessionColumns = []scenario.Column{
	scenario.Runs, scenario.Count("events lost", eventLost), scenario.Count("repeated", eventRepeated),
	scenario.Count("answers lost", answerLost), scenario.Count("repeated", answerRepeated),
	{Title: "flows again", Cell: medianRecovery}, scenario.Count(leftOver, leftOver), scenario.Count(wrong, wrong),
}

func medianRecovery(rs []*scenario.Result) string {
	var flows []time.Duration
	for _, r := range rs {
		if r.Recovered > 0 {
			flows = append(flows, r.Recovered)
		}
	}
	if len(flows) == 0 {
		return "–"
	}
	slices.Sort(flows)
	return fmt.Sprintf("%.1f s", flows[len(flows)/2].Seconds())
}

// byMoment returns the matrix with a line for each fault at each moment.
func byMoment(results []*scenario.Result) scenario.Table {
	t := scenario.NewTable([]string{"fault", "moment"}, sessionColumns)
	for _, f := range faults {
		for _, m := range moments {
			t.Add([]string{f.name, m.name}, sessionColumns, scenario.Select(results, func(r *scenario.Result) bool { return r.Subject == f.name && r.Moment == m.name }))
		}
	}
	t.Add([]string{"all", ""}, sessionColumns, results)
	return t
}

// byFault returns the matrix with a line for each fault.
func byFault(results []*scenario.Result) scenario.Table {
	t := scenario.NewTable([]string{"fault", "moments"}, sessionColumns)
	add := func(name string, rs []*scenario.Result) {
		seen := map[string]bool{}
		for _, r := range rs {
			seen[r.Moment] = true
		}
		t.Add([]string{name, fmt.Sprint(len(seen))}, sessionColumns, rs)
	}
	for _, f := range faults {
		add(f.name, scenario.Select(results, func(r *scenario.Result) bool { return r.Subject == f.name }))
	}
	add("all", results)
	return t
}
