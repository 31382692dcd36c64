package accrual

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/actionproof/mediator/internal/pattern"
	"github.com/actionproof/mediator/internal/strictjson"
)

// CheckForm refuses a struct with a member of another form than the member's tag "form" demands, or by its own Check
// method, if it has one. A member that is missing and may be (omitempty) has any form. The forms are:
//
//	id, hash, dispute, agent  texts, by the patterns below
//	text:N, name:N            1 to N characters, or 1 to N bytes
//	a|b|c                     one of these texts
//	time, count               whole numbers from 1, or from 0
//	rounded:N                 0 to N, by [Round]
//	true, false               always so
//
// In a list each item has the form, and no item is there twice. "most:N" bounds the list, "sorted" demands ascending
// order.
func CheckForm(of any) error {
	v := reflect.Indirect(reflect.ValueOf(of))
	for i := range v.NumField() {
		field, value := v.Type().Field(i), reflect.Indirect(v.Field(i))
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		form := field.Tag.Get("form")
		var err error
		switch {
		case !value.IsValid() || v.Field(i).IsZero() && options == "omitempty":
		case value.Kind() == reflect.Struct:
			err = CheckForm(value.Interface())
		case value.Kind() == reflect.Slice && value.Type().Elem().Kind() == reflect.Struct:
			for i := range value.Len() {
				err = errors.Join(err, CheckForm(value.Index(i).Interface()))
			}
		case form == "":
		case value.Kind() == reflect.Slice:
			err = checkList(name, strings.Fields(form), value.Interface().([]string))
		default:
			err = checkValue(name, form, value)
		}
		if err != nil {
			return err
		}
	}
	if rule, ok := v.Interface().(interface{ Check() error }); ok {
		return rule.Check()
	}
	return nil
}

// ParseEntryOf reads the canonical JSON that [EncodeEntry] writes and refuses any other spelling.
func ParseEntryOf[E any](raw []byte, most int) (e E, err error) {
	if err = strictjson.ParseCanonical(raw, &e, most); err == nil {
		err = CheckForm(e)
	}
	if err != nil {
		return *new(E), fmt.Errorf("an entry is malformed: %w", err)
	}
	return e, nil
}

// EncodeEntry returns an entry of a log as RFC 8785 canonical JSON. It refuses one that could never be read again.
func EncodeEntry(e any, most int) ([]byte, error) {
	if err := CheckForm(e); err != nil {
		return nil, fmt.Errorf("an entry is invalid: %w", err)
	}
	text, err := strictjson.CanonicalOf(e)
	if err == nil && len(text) > most {
		err = fmt.Errorf("an entry has %d bytes; at most %d are written", len(text), most)
	}
	return text, err
}

// MemberOf names the one pointer in an entry of a log that is set. It refuses an entry with none or several.
func MemberOf(entry any) (name string, err error) {
	set, v := 0, reflect.ValueOf(entry)
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Pointer && !f.IsNil() {
			name, _, _ = strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			set++
		}
	}
	if set != 1 {
		return "", fmt.Errorf("an entry has %d subjects instead of one", set)
	}
	return name, nil
}

func checkList(name string, form, list []string) error {
	for _, item := range list {
		if err := checkValue(name, form[0], reflect.ValueOf(item)); err != nil {
			return err
		}
	}
	for _, bound := range form[1:] {
		most, limited := strings.CutPrefix(bound, "most:")
		switch {
		case limited && len(list) > number(most):
			return fmt.Errorf("it has %d items in %s; at most %s are allowed", len(list), name, most)
		case bound == "sorted" && !slices.IsSorted(list):
			return fmt.Errorf("it has %s that are not in ascending order", name)
		}
	}
	if sorted := slices.Sorted(slices.Values(list)); len(slices.Compact(sorted)) != len(list) {
		return fmt.Errorf("it has an item twice in %s", name)
	}
	return nil
}

// patterns of texts. The schemas of documents have the same.
var patterns = map[string]pattern.Pattern{
	"id":      pattern.New(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$`),
	"hash":    pattern.New(`^[0-9a-f]{64}$`),
	"dispute": pattern.New(`^dsp_[0-9a-f]{32}$`),
	"agent":   pattern.New(`^([A-Za-z0-9_-]{43}:[^\x00]{1,256}|did:key:z6Mk[1-9A-HJ-NP-Za-km-z]{44})$`),
}

// maxWhole is the greatest integer that a double represents uniquely.
const maxWhole = 1<<53 - 1

func checkValue(name, form string, v reflect.Value) error {
	want := func(ok bool, format string, args ...any) error {
		if ok {
			return nil
		}
		return fmt.Errorf("its %s %s", name, fmt.Sprintf(format, args...))
	}
	kind, bound, _ := strings.Cut(form, ":")
	most := number(bound)
	switch kind {
	case "time":
		return want(1 <= v.Int() && v.Int() <= maxWhole, "is not a time in Unix seconds")
	case "true", "false":
		return want(fmt.Sprint(v.Bool()) == kind, "is not %s", kind)
	case "count":
		return want(0 <= v.Int() && v.Int() <= maxWhole, "is negative or too great")
	case "rounded":
		return want(within(v.Float(), float64(most)), "is not from 0 to %d, with at most six decimals", most)
	case "text":
		n := utf8.RuneCountInString(v.String())
		return want(0 < n && n <= most, "is empty or longer than %d characters", most)
	case "name":
		return want(0 < v.Len() && v.Len() <= most, "is empty or longer than %d bytes", most)
	case "id", "hash", "dispute", "agent":
		if p := patterns[kind]; !p.MatchString(v.String()) {
			return want(false, "does not match %s", p)
		}
		if kind == "agent" {
			_, err := ParseAgent(v.String())
			return want(err == nil, "is no agent's id: %v", err)
		}
		return nil
	}
	known := strings.Split(form, "|")
	return want(slices.Contains(known, v.String()), "is %.40q instead of one of %s", v, strings.Join(known, ", "))
}

func number(text string) int {
	n, _ := strconv.Atoi(text) // the tags are part of the program
	return n
}

// within reports whether f is rounded and between 0 and most. It refuses NaN and -0.
func within(f, most float64) bool { return f >= 0 && f <= most && !math.Signbit(f) && f == Round(f) }
