package conversation

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestAModelListIsReadWhateverIsInIt(t *testing.T) {
	long := strings.Repeat("x", maxModelID+1)
	for answer, want := range map[string][]protocol.Model{
		`{"data":[{"id":"a","model":"m-a","displayName":"A","isDefault":true,"supportedReasoningEfforts":[{"reasoningEffort":"low","description":"fast"},{"reasoningEffort":"high"}],"defaultReasoningEffort":"low"}]}`: {
			{ID: "m-a", Name: "A", Efforts: []string{"low", "high"}, DefaultEffort: "low", Default: true}},
		// Hidden models and unreadable entries are left out. The rest is listed.
		`{"data":[{"id":"h","hidden":true},7,null,"x",[],{"id":5},{"id":""},{},{"id":"b","hidden":"no"},{"id":"c"},{"id":"c","displayName":"again"}]}`: {
			{ID: "c", Name: "c", Efforts: []string{}}},
		// Efforts are objects, or strings in older versions. Anything else is
		// ignored.
		`{"models":[{"id":"d","supportedReasoningEfforts":["low",{"reasoningEffort":"low"},{"effort":"x"},7,null,{"reasoningEffort":"xhigh"}]}]}`: {
			{ID: "d", Name: "d", Efforts: []string{"low", "xhigh"}}},
		`{"data":[{"id":"` + long + `"},{"id":"e","displayName":"` + long + `","defaultReasoningEffort":"` + long + `","supportedReasoningEfforts":["` + long + `"]}]}`: {
			{ID: "e", Name: long[1:], Efforts: []string{}}},
		`{"data":{}}`: nil, `[]`: nil, `null`: nil, `7`: nil, `{"data":`: nil, ``: nil, `{}`: nil,
	} {
		if got := ParseModels(json.RawMessage(answer)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s\ngives %+v, want %+v", answer, got, want)
		}
	}
}

func TestAModelListOfAnyLengthFitsIntoAWorkflow(t *testing.T) {
	var some []string
	models := 10_000
	if testing.Short() {
		models = 500 // five times the number that is kept; the race detector makes more slow
	}
	for i := range models {
		efforts, err := json.Marshal(strings.Split(strings.Repeat(fmt.Sprintf("effort-%d,", i), maxEfforts), ","))
		if err != nil {
			t.Fatal(err)
		}
		some = append(some, fmt.Sprintf(`{"id":"m-%d","displayName":%q,"supportedReasoningEfforts":%s}`, i, strings.Repeat("<", 10_000), efforts))
	}
	got := ParseModels(json.RawMessage(`{"data":[` + strings.Join(some, ",") + `]}`))
	if n := wire.JSONLen(got); n > maxModelsText+1000 || len(got) != maxModels || got[99].ID != "m-99" {
		t.Errorf("%d models, which take %d bytes", len(got), n)
	}
}
