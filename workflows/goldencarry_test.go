package workflows

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/workflows/batch"
	"fairlead.dev/fairlead/workflows/hostpool"
	"fairlead.dev/fairlead/workflows/newer"
	"fairlead.dev/fairlead/workflows/outbox"
	"fairlead.dev/fairlead/workflows/seed"
	"fairlead.dev/fairlead/workflows/session"
)

// The recorded histories carry only what their workflows happened to have. This test
// keeps a state of each kind of workflow in which every field is set. Any later
// version must be able to read such a state.
var carriedStates = map[string]any{
	"session": new(session.Input), "hostpool": new(hostpool.Input), "seed": new(seed.Input), "seedpool": new(seed.PoolInput), "batch": new(batch.Input), "outbox": new(outbox.Input),
}

// TestGoldenCarry reads the kept inputs with a carried state, and writes them again.
func TestGoldenCarry(t *testing.T) {
	for name, in := range carriedStates {
		t.Run(name, func(t *testing.T) {
			of := reflect.TypeOf(in).Elem()
			path := filepath.Join(golden, "carry-"+name+".json")
			full := reflect.New(of)
			fill(full.Elem(), "", nil)
			today := written(t, full.Interface())
			if *renewing {
				renewCarry(t, path, today)
			}
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatalf("read what is carried (`make golden` makes it): %v", err)
			}
			kept := decoded(raw)

			again := reflect.New(of)
			err = json.Unmarshal(raw, again.Interface())
			if unknown := again.Interface().(newer.Input).Unknown(); err == nil && len(unknown) > 0 {
				err = fmt.Errorf("not known: %v", unknown)
			}
			if err != nil {
				t.Fatalf("%s cannot be read any more: %v. A state that is carried must stay readable: put it back, or add a version and a migration", path, err)
			}
			for _, what := range differ("", kept, written(t, again.Interface()), exact) {
				t.Errorf("%s is written otherwise than it was read: %s", path, what)
			}
			for _, what := range differ("", kept, today, exact) {
				t.Errorf("a %s with every field set is not as in %s: %s (a new field is added by `make golden`)", name, path, what)
			}
		})
	}
}

// renewCarry writes a state. It removes no field that a frozen release has.
func renewCarry(t *testing.T, path string, today any) {
	t.Helper()
	if newestIsFrozen(t) {
		raw, err := os.ReadFile(path)
		if err == nil {
			if gone := differ("", decoded(raw), today, mayGrow); len(gone) > 0 {
				t.Fatalf("%s is not renewed, since a release has it and it lost something: %s", path, strings.Join(gone, "; "))
			}
		}
	}
	raw, err := json.MarshalIndent(today, "", "  ")
	if err == nil {
		err = errors.Join(os.MkdirAll(golden, 0o755), os.WriteFile(path, append(raw, '\n'), 0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func written(t *testing.T, v any) any {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return decoded(raw)
}

// fill sets every field of a value that JSON shows. The value of a field depends only on
// the field's path in JSON, so that fields may move between embedded structs.
func fill(v reflect.Value, path string, within []reflect.Type) {
	sum := fnv.New32a()
	sum.Write([]byte(path))
	n := int64(sum.Sum32()%100 + 1)
	t := v.Type()
	switch {
	case t == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(1_800_000_000+n, 0).UTC()))
		return
	case t == reflect.TypeFor[json.RawMessage]():
		v.Set(reflect.ValueOf(json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))))
		return
	}
	switch t.Kind() {
	case reflect.Pointer:
		if within := append(within, t); count(within, t) <= 2 {
			v.Set(reflect.New(t.Elem()))
			fill(v.Elem(), path, within)
		}
	case reflect.Slice:
		if within := append(within, t); count(within, t) <= 2 {
			v.Set(reflect.MakeSlice(t, 1, 1))
			fill(v.Index(0), path+"[0]", within)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), fmt.Sprintf("%s[%d]", path, i), within)
		}
	case reflect.Map:
		if within := append(within, t); count(within, t) <= 2 {
			key, value := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
			fill(key, path+"{key}", within)
			fill(value, path+"{}", within)
			v.Set(reflect.MakeMap(t))
			v.SetMapIndex(key, value)
		}
	case reflect.Struct:
		fields, err := jsonFields(t)
		if err != nil {
			panic(err)
		}
		for _, f := range fields {
			fill(embedded(v, f.Index), path+"."+f.name, within)
		}
	case reflect.String:
		v.SetString(path[strings.LastIndex(path, ".")+1:] + fmt.Sprint(n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(n)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(n))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(n))
	case reflect.Interface:
		v.Set(reflect.ValueOf(fmt.Sprint(n)))
	default:
		panic(fmt.Sprintf("%s is a %v, which this test does not set", path, t))
	}
}

func count(all []reflect.Type, t reflect.Type) (n int) {
	for _, one := range all {
		if one == t {
			n++
		}
	}
	return n
}

// embedded returns a field that may be promoted from embedded pointers.
func embedded(v reflect.Value, index []int) reflect.Value {
	for i, n := range index {
		if i > 0 && v.Kind() == reflect.Pointer {
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		v = v.Field(n)
	}
	return v
}

// If a field of the state is not set, the test would not notice its loss.
func TestEveryFieldOfACarriedStateIsSet(t *testing.T) {
	for name, in := range carriedStates {
		full := reflect.New(reflect.TypeOf(in).Elem())
		fill(full.Elem(), "", nil)
		unset(full.Elem(), name, func(path string) { t.Errorf("%s is not set", path) }, nil)
	}
}

// unset finds the zero fields that JSON shows. It leaves out a value that is within a value
// of the same type.
func unset(v reflect.Value, path string, found func(path string), within []reflect.Type) {
	if v.IsZero() && count(within, v.Type()) == 0 {
		found(path)
		return
	}
	t := v.Type()
	if t == reflect.TypeFor[time.Time]() {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			unset(v.Elem(), path, found, append(within, t))
		}
	case reflect.Slice:
		if v.Len() > 0 {
			unset(v.Index(0), path+"[0]", found, append(within, t))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			unset(v.MapIndex(key), path+"{}", found, append(within, t))
		}
	case reflect.Struct:
		fields, err := jsonFields(t)
		if err != nil {
			panic(err)
		}
		for _, f := range fields {
			unset(v.FieldByIndex(f.Index), path+"."+f.name, found, within)
		}
	}
}
