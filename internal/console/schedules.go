package console

import (
	"net/http"
	"net/url"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/protocol"
)

type scheduleList struct {
	Schedules []protocol.ScheduleView
	More      bool
	May       bool
}

func (v *visit) schedules() error {
	var page struct {
		Items  []protocol.ScheduleView `json:"items"`
		Cursor string                  `json:"cursor"`
	}
	if err := v.get("/v1/schedules?limit=500", &page); err != nil {
		return err
	}
	return v.show(http.StatusOK, "schedules", "Schedules", "schedules", "", scheduleList{page.Items, page.Cursor != "", v.may(access.ScheduleWrite, "")})
}

type schedulePage struct {
	protocol.ScheduleView
	May bool
}

// Runs returns where a run of the schedule is shown.
func (s schedulePage) Runs(id string) string {
	if s.Batch > 0 {
		return "/batches/" + url.PathEscape(id)
	}
	return "/sessions/" + url.PathEscape(id)
}

func (v *visit) readSchedule() (s schedulePage, err error) {
	s.May = v.may(access.ScheduleWrite, "")
	return s, v.get("/v1/schedules/"+url.PathEscape(v.r.PathValue("name")), &s.ScheduleView)
}

func (v *visit) schedule() error {
	s, err := v.readSchedule()
	if err != nil {
		return err
	}
	return v.show(http.StatusOK, "schedule", "Schedule "+s.Name, "schedules", "/live?"+url.Values{"of": {"schedule"}, "id": {s.Name}}.Encode(), s)
}

func (v *visit) scheduleAct() error {
	s, err := v.readSchedule()
	if err != nil {
		return err
	}
	at, act := "/schedules/"+url.PathEscape(s.Name), v.r.PathValue("act")
	c := change{Verb: access.ScheduleWrite, Path: "/v1" + at + "/" + act, Question: question{Action: at + "/" + act, Back: at}}
	q := &c.Question
	switch act {
	case "pause":
		c.Title, q.Button, q.Reason = "Pause schedule "+s.Name, "Pause it", true
		q.Text = []string{"It begins nothing by the clock until somebody resumes it. What it has begun goes on."}
		c.Body = func(f url.Values) any { return map[string]string{"reason": f.Get("reason")} }
	case "resume":
		c.Title, q.Button = "Resume schedule "+s.Name, "Resume it"
		q.Text = []string{"It begins " + s.What + " by the clock again."}
	case "trigger":
		c.Title, q.Button = "Begin a run of schedule "+s.Name, "Begin it now"
		q.Text = []string{"It begins " + s.What + " now, in addition to what it begins by the clock. If an earlier run has not ended, this setting of the schedule applies: " + s.Overlap + "."}
	case "delete":
		how := choice{Name: "close", Legend: "What it has begun and has not ended", Is: "no", Options: []option{{"no", "goes on"}, {"yes", "is closed"}}}
		c.Title, q.Button, q.Grave = "Delete schedule "+s.Name, "Delete it", true
		q.Text = []string{"It cannot be brought back.", plural(s.Running, "run of it goes on now.", "runs of it go on now.")}
		q.Choices = []choice{how}
		c.Method, c.Path, c.Done = http.MethodDelete, "/v1"+at, "/schedules"
		if v.r.Method == http.MethodPost && how.Given(v.r.PostForm) == "yes" {
			c.Path += "?close=true"
		}
	default:
		return v.nowhere()
	}
	return v.confirm("schedules", c)
}
