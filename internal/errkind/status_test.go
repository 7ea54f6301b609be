package errkind

import "testing"

// Each kind of ctl's errors has one HTTP status, and a kind without one has that of its exit
// code.
func TestEachKindHasAStatus(t *testing.T) {
	for _, c := range []struct {
		err  *Error
		want int
	}{
		{Failed("x"), 500}, {Usage("x"), 400}, {NotFound("x"), 404}, {Unreachable("x"), 503}, {TimedOut("x"), 504}, {Refused("x"), 409},
		{NeedsPerson("x"), 409}, {New(ExitRefused, KeyReused, "x"), 422}, {New(ExitRefused, "forbidden", "x"), 403},
		{New(ExitUnreachable, "host_unreachable", "x"), 503}, {New(ExitNotFound, "seed_not_found", "x"), 404}, {New(ExitFailed, "no_slots", "x"), 409},
	} {
		if got := c.err.Status(); got != c.want {
			t.Errorf("%s with exit code %d: status %d, want %d", c.err.Kind, c.err.Code, got, c.want)
		}
	}
	for status, want := range map[int]string{400: "bad_input", 404: "not_found", 405: "bad_input", 413: "bad_input", 422: "bad_input", 500: "internal", 503: "unreachable"} {
		if got := KindOf(status); got != want {
			t.Errorf("status %d: kind %s, want %s", status, got, want)
		}
	}
}
