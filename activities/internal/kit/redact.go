package kit

import (
	"reflect"

	"fairlead.dev/fairlead/seeds"
)

// HideIn hides secrets in every string reachable from the pointer v, but not in bytes:
// those are codex's request ids.
func HideIn(r *seeds.Redactor, v any) {
	if r != nil {
		hideValue(r, reflect.ValueOf(v))
	}
}

func hideValue(r *seeds.Redactor, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			hideValue(r, v.Elem())
		}
	case reflect.String:
		if v.CanSet() {
			v.SetString(r.String(v.String()))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				hideValue(r, v.Field(i))
			}
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		for i := range v.Len() {
			hideValue(r, v.Index(i))
		}
	case reflect.Map:
		if v.Type().Elem().Kind() != reflect.String {
			return
		}
		for _, k := range v.MapKeys() {
			v.SetMapIndex(k, reflect.ValueOf(r.String(v.MapIndex(k).String())).Convert(v.Type().Elem()))
		}
	}
}
