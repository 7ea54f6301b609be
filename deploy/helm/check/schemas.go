package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// kinds are those that the chart makes, as kubeconform calls their schemas.
var kinds = map[string]string{
	"configmap-v1":                           "io.k8s.api.core.v1.ConfigMap",
	"service-v1":                             "io.k8s.api.core.v1.Service",
	"serviceaccount-v1":                      "io.k8s.api.core.v1.ServiceAccount",
	"statefulset-apps-v1":                    "io.k8s.api.apps.v1.StatefulSet",
	"deployment-apps-v1":                     "io.k8s.api.apps.v1.Deployment",
	"job-batch-v1":                           "io.k8s.api.batch.v1.Job",
	"poddisruptionbudget-policy-v1":          "io.k8s.api.policy.v1.PodDisruptionBudget",
	"networkpolicy-networking-v1":            "io.k8s.api.networking.v1.NetworkPolicy",
	"ingress-networking-v1":                  "io.k8s.api.networking.v1.Ingress",
	"horizontalpodautoscaler-autoscaling-v2": "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler",
}

// makeSchemas makes strict schemas of the kinds: a field that Kubernetes does not know is a
// mistake. Descriptions are left out.
func makeSchemas(swagger string) error {
	text, err := os.ReadFile(swagger)
	if err != nil {
		return err
	}
	var api struct{ Definitions map[string]map[string]any }
	if err := json.Unmarshal(text, &api); err != nil {
		return fmt.Errorf("%s: %w", swagger, err)
	}
	found := map[string]any{}
	var add func(name string) error
	var clean func(v any) (any, error)
	clean = func(v any) (any, error) {
		switch v := v.(type) {
		case []any:
			for i := range v {
				c, err := clean(v[i])
				if err != nil {
					return nil, err
				}
				v[i] = c
			}
			return v, nil
		case map[string]any:
			out := map[string]any{}
			for key, value := range v {
				if _, isText := value.(string); isText && key == "description" || strings.HasPrefix(key, "x-kubernetes") {
					continue
				}
				if ref, isText := value.(string); key == "$ref" && isText {
					if err := add(strings.TrimPrefix(ref, "#/definitions/")); err != nil {
						return nil, err
					}
					out[key] = ref
					continue
				}
				c, err := clean(value)
				if err != nil {
					return nil, err
				}
				out[key] = c
			}
			if out["format"] == "int-or-string" {
				return map[string]any{"type": []any{"string", "integer"}}, nil
			}
			if _, isText := out["format"].(string); isText { // it may be the name of a property
				delete(out, "format")
			}
			if _, object := out["properties"].(map[string]any); object && out["type"] == "object" {
				out["additionalProperties"] = false
			}
			return out, nil
		}
		return v, nil
	}
	add = func(name string) error {
		if _, done := found[name]; done {
			return nil
		}
		d, is := api.Definitions[name]
		if !is {
			return fmt.Errorf("%s has no %s", swagger, name)
		}
		found[name] = nil // definitions may refer to themselves
		if strings.HasSuffix(name, ".resource.Quantity") {
			found[name] = map[string]any{"type": []any{"string", "number"}}
			return nil
		}
		c, err := clean(d)
		found[name] = c
		return err
	}
	for _, definition := range kinds {
		if err := add(definition); err != nil {
			return err
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", " ")
	if err := e.Encode(map[string]any{"kinds": kinds, "definitions": found}); err != nil {
		return err
	}
	return os.WriteFile(schemas, b.Bytes(), 0o644)
}
