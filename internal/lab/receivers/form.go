package receivers

import "net/url"

// Form returns the fields of a request to Slack.
func Form(g Got) url.Values {
	v, err := url.ParseQuery(string(g.Body))
	if err != nil {
		return url.Values{}
	}
	return v
}
