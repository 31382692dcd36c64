package fields

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/strict"
)

// Findings collects everything that is wrong with a configuration, so that one run reports all of it.
type Findings struct {
	*strict.File
	Path string // of the file
	// NoSecrets has stand-ins take the place of secrets, whose files are elsewhere.
	NoSecrets bool
	OverTCP   []string // keys of endpoints over TCP
}

// Secret reads a secret of at least minimum bytes.
func (f *Findings) Secret(path string, minimum int) (string, error) {
	if f.NoSecrets { // one of its own for each file, in the form of Standard Webhooks, which suits all
		of := sha256.Sum256([]byte(path))
		return "whsec_" + base64.StdEncoding.EncodeToString(of[:]), nil
	}
	return files.ReadSecret(path, minimum)
}

// Err returns all mistakes, or nil.
func (f *Findings) Err() error { return f.File.Err(f.Path + ": ") }

// A Checker is a block with rules that tags cannot say. Check adds its mistakes to f, and reads its files.
type Checker interface {
	Check(key string, f *Findings)
}

// Check checks a part of a configuration, to which v points, by the tags of its types, and calls its [Checker]s. It
// also sets the defaults of tags.
func (f *Findings) Check(key string, v any) {
	f.checkValue(key, reflect.ValueOf(v))
	f.checkUnique(key, reflect.ValueOf(v))
}

// checkUnique refuses a text that another key with the same tag unique has.
func (f *Findings) checkUnique(key string, v reflect.Value) {
	seen := make(map[[2]string]string) // the blocks, by tag and text
	texts(key, "", v, func(key string, tag reflect.StructTag, text reflect.Value) {
		what := tag.Get("unique")
		if what == "" {
			return
		}
		if other, taken := seen[[2]string{what, text.String()}]; taken {
			f.Add(key, "%.200s is also the %s of %s", text, what, other)
			return
		}
		seen[[2]string{what, text.String()}] = key[:max(0, strings.LastIndexByte(key, '.'))]
	})
}

func (f *Findings) checkValue(key string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			f.checkValue(key, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			f.checkValue(fmt.Sprintf("%s[%d]", key, i), v.Index(i))
		}
	case reflect.Struct:
		f.checkFields(key, v)
		f.checkChoice(key, v)
		if c, ok := v.Addr().Interface().(Checker); ok {
			c.Check(key, f)
		}
	}
}

func (f *Findings) checkFields(key string, v reflect.Value) {
	secrets := make(map[string]string) // by the keys of their files
	for i := range v.NumField() {
		at := v.Type().Field(i)
		name, option, _ := strings.Cut(at.Tag.Get("yaml"), ",")
		switch {
		case option == "inline":
			f.checkFields(key, v.Field(i)) // the outer struct has the inlined struct's check
		case name == "-":
			if secret := secrets[at.Tag.Get("of")]; secret != "" {
				v.Field(i).SetString(secret)
			}
		case name != "":
			below := strings.TrimPrefix(key+"."+name, ".")
			f.checkTags(below, v.Field(i), at.Tag)
			f.checkValue(below, v.Field(i))
			if least := at.Tag.Get("least"); least != "" && v.Field(i).Len() > 0 {
				secrets[name] = f.ReadSecret(below, v.Field(i).String(), int(Bound(least)))
			}
		}
	}
}

// checkChoice demands that exactly one of the keys with the tag choice is set.
func (f *Findings) checkChoice(key string, v reflect.Value) {
	var all []string
	set := 0
	for _, f := range reflect.VisibleFields(v.Type()) {
		if f.Tag.Get("choice") == "" {
			continue
		}
		if all = append(all, f.Tag.Get("yaml")); !v.FieldByIndex(f.Index).IsZero() {
			set++
		}
	}
	if len(all) > 0 && set != 1 {
		f.Add(key, "needs exactly one of %s", strings.Join(all, ", "))
	}
}

func (f *Findings) checkTags(key string, v reflect.Value, tag reflect.StructTag) {
	required := tag.Get("need") != "" && v.Kind() != reflect.Struct
	switch {
	case required && (v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0):
		f.Add(key, "is required")
		return
	case required && v.Type() == reflect.TypeFor[[]string]() && slices.Contains(v.Interface().([]string), ""):
		f.Add(key, "has an empty item")
	}
	if allowed := strings.Fields(tag.Get("one")); len(allowed) > 0 {
		switch got := v.String(); {
		case got == "":
			v.SetString(allowed[0])
		case !slices.Contains(allowed, got):
			f.Add(key, "%.40q is none of %s%s", got, strings.Join(allowed, ", "), strict.Suggest(got, allowed))
			v.SetString(allowed[0])
		}
	}
	switch tag.Get("is") {
	case "address", "listen", "peer":
		if v.String() != "" {
			f.Address(key, v.String())
		}
	}
	if to := tag.Get("to"); to != "" && !v.IsZero() {
		f.checkBounds(key, v, tag.Get("from"), Bound(to))
	}
}

func (f *Findings) checkBounds(key string, v reflect.Value, from string, most int64) {
	switch v.Kind() {
	case reflect.String:
		if int64(v.Len()) > most {
			f.Add(key, "has %d bytes; at most %d are allowed", v.Len(), most)
		}
	case reflect.Slice:
		if int64(v.Len()) > most {
			f.Add(key, "there are %d; at most %d are allowed", v.Len(), most)
		}
	default:
		switch is, least := v.Int(), Bound(from); {
		case from == "" && is > most:
			f.Add(key, "%s is more than %s", shown(v, is), shown(v, most))
		case from != "" && (is < least || is > most):
			f.Add(key, "%s is not between %s and %s", shown(v, is), shown(v, least), shown(v, most))
		}
	}
}

// Bound returns the number or the duration in a tag from or to, or 0.
func Bound(text string) int64 {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	d, _ := time.ParseDuration(text)
	return int64(d)
}

func shown(v reflect.Value, n int64) string {
	if v.Type() == reflect.TypeFor[Duration]() {
		return time.Duration(n).String()
	}
	return strconv.FormatInt(n, 10)
}

// ReadSecret is [Findings.Secret] for the file that a key names.
func (f *Findings) ReadSecret(key, path string, minimum int) string {
	secret, err := f.Secret(path, minimum)
	if err != nil {
		f.Add(key, "%v", err)
	}
	return secret
}

// Address checks a host:port.
func (f *Findings) Address(key, address string) {
	if _, port, err := net.SplitHostPort(address); err != nil || port != "0" && PortIn(address) == 0 {
		f.Add(key, "%q is not a host and a port, as 127.0.0.1:8181 is", address)
	}
}

// PortIn returns the port of a host:port, or 0.
func PortIn(address string) uint16 {
	_, s, _ := net.SplitHostPort(address)
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		return 0
	}
	return uint16(n)
}
