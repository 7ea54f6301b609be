package seeds

import (
	"errors"
	"strings"
	"testing"
)

func TestToolsOfASeedAreInItsBundleAndNotInConfig(t *testing.T) {
	const settings = "model: m\nprovider: {base_url: \"http://127.0.0.1:9/v1\", bearer_token: marked-provider-0123}\ntools:\n" +
		"  - name: lookup\n    description: looks\n    schema: {type: object, properties: {id: {type: string, maxLength: 40}}, required: [id]}\n    webhook: https://tools.example/lookup\n"
	b, err := PackWith("", []byte(settings))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"tools":[{"description":"looks","name":"lookup","schema":{"properties":{"id":{"maxLength":40,"type":"string"}},"required":["id"],"type":"object"},"webhook":"https://tools.example/lookup"}]}`
	gateway, err := b.ForGateway()
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := Unpack(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]*Bundle{"packed": b, "unpacked": unpacked, "without its login": b.WithoutAuth(), "for the model gateway": gateway} {
		if got, err := b.Tools(); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	own, err := settingsOf(b.File(settingsFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range own.render() {
		if strings.Contains(s.key+s.value, "lookup") || s.key == "tools" {
			t.Errorf("config.toml has %+v", s)
		}
	}
	for name, b := range map[string]*Bundle{"no bundle": nil, "no settings": pack(t, map[string]string{"auth.json": `{"OPENAI_API_KEY":"sk-0123456789"}`})} {
		if got, err := b.Tools(); got != nil || err != nil {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

func TestToolsThatAreNoListAreAMistakeWithItsLine(t *testing.T) {
	var mistakes *SettingsError
	if _, err := ParseSettings([]byte("model: m\ntools: {lookup: x}\n")); !errors.As(err, &mistakes) || !strings.Contains(err.Error(), "line 2: tools: takes a list of tools") {
		t.Errorf("%v", err)
	}
}

func TestRulesForFollowUpsOfASeedAreInItsBundleAndNotInConfig(t *testing.T) {
	const settings = "model: m\nprovider: {base_url: \"http://127.0.0.1:9/v1\", bearer_token: marked-provider-0123}\nfollow_ups:\n" +
		"  - {name: review, after: {turns: 1}, prompt: review it, seed: cheap, budget: tokens=900}\n  - {name: schema, after: {files: [\"*.sql\"]}, prompt: look}\n"
	b, err := PackWith("", []byte(settings))
	if err != nil {
		t.Fatal(err)
	}
	gateway, err := b.ForGateway()
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := Unpack(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]*Bundle{"packed": b, "unpacked": unpacked, "without its login": b.WithoutAuth(), "for the model gateway": gateway} {
		got, err := b.FollowUps()
		if err != nil || len(got) != 2 || got[0].Name != "review" || got[0].Seed != "cheap" || got[0].Bounds.Tokens != 900 || got[1].Files[0] != "*.sql" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	own, err := settingsOf(b.File(settingsFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range own.render() {
		if strings.Contains(s.key+s.value, "review") || s.key == "follow_ups" {
			t.Errorf("config.toml has %+v", s)
		}
	}
	for name, b := range map[string]*Bundle{"no bundle": nil, "no settings": pack(t, map[string]string{"auth.json": `{"OPENAI_API_KEY":"sk-0123456789"}`})} {
		if got, err := b.FollowUps(); got != nil || err != nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for settings, says := range map[string]string{
		"model: m\nfollow_ups:\n  - {name: review, prompt: look}\n": "line 2: follow_ups: follow-up 1: give one of turns, tool_calls and files",
		"follow_ups: {name: review}\n":                              "line 1: follow_ups: follow_ups takes a list",
	} {
		var mistakes *SettingsError
		if _, err := ParseSettings([]byte(settings)); !errors.As(err, &mistakes) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, which does not say %q", err, says)
		}
	}
}
