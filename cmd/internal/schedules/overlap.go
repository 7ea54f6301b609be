package schedules

import (
	"strings"

	enums "go.temporal.io/api/enums/v1"

	"fairlead.dev/fairlead/internal/errkind"
)

// overlaps say what happens if an earlier firing still runs.
var overlaps = []struct {
	word   string
	policy enums.ScheduleOverlapPolicy
}{
	{"skip", enums.SCHEDULE_OVERLAP_POLICY_SKIP},
	{"buffer-one", enums.SCHEDULE_OVERLAP_POLICY_BUFFER_ONE},
	{"buffer-all", enums.SCHEDULE_OVERLAP_POLICY_BUFFER_ALL},
	{"cancel-other", enums.SCHEDULE_OVERLAP_POLICY_CANCEL_OTHER},
	{"terminate-other", enums.SCHEDULE_OVERLAP_POLICY_TERMINATE_OTHER},
	{"allow-all", enums.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL},
}

// ParseOverlap returns the policy of a word, and none for an empty one.
func ParseOverlap(word string) (enums.ScheduleOverlapPolicy, error) {
	var words []string
	for _, o := range overlaps {
		if o.word == word {
			return o.policy, nil
		}
		words = append(words, o.word)
	}
	if word == "" {
		return enums.SCHEDULE_OVERLAP_POLICY_UNSPECIFIED, nil
	}
	return 0, errkind.Usage("--overlap %q is not one of %s", word, strings.Join(words, ", "))
}

// OverlapWord returns the word of a policy.
func OverlapWord(p enums.ScheduleOverlapPolicy) string {
	for _, o := range overlaps {
		if o.policy == p {
			return o.word
		}
	}
	return "skip"
}
