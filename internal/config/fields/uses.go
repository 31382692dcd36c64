package fields

import (
	"fmt"
	"reflect"
	"strings"
)

// Uses are the files and addresses that a configuration names, by the tags is of its keys.
type Uses struct {
	Secret  []string // files that the agent must neither read nor change
	Public  []string // files that the agent must not change
	Write   []string // folders
	Connect []string // addresses, URLs and ports
	Listens []Place
}

// Place is where a process listens, with the key that names it: a TCP address or the path of a unix socket.
type Place struct{ Key, Address, Unix string }

// UsesOf returns what a configuration names. It leaves out keys without a value.
func UsesOf(configuration any) (u Uses) {
	texts("", "", reflect.ValueOf(configuration), func(key string, tag reflect.StructTag, text reflect.Value) {
		switch name := text.String(); tag.Get("is") {
		case "secret":
			u.Secret = append(u.Secret, name)
		case "public", "library":
			u.Public = append(u.Public, name)
		case "folder":
			u.Write = append(u.Write, name)
		case "peer", "server":
			u.Connect = append(u.Connect, name)
		case "listen":
			u.Listens = append(u.Listens, Place{Key: key, Address: name})
		case "socket":
			u.Listens = append(u.Listens, Place{Key: key, Unix: name})
		}
	})
	return u
}

// Resolve replaces the paths in a configuration.
func Resolve(configuration any, path func(string) string) {
	texts("", "", reflect.ValueOf(configuration), func(_ string, tag reflect.StructTag, text reflect.Value) {
		switch tag.Get("is") {
		case "path", "public", "secret", "folder", "socket":
			text.SetString(path(text.String()))
		}
	})
}

// texts calls do with each text below v, its key, and the tags of its field. It skips empty texts.
func texts(key string, tag reflect.StructTag, v reflect.Value,
	do func(key string, tag reflect.StructTag, text reflect.Value)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			texts(key, tag, v.Elem(), do)
		}
	case reflect.Slice:
		for i := range v.Len() {
			texts(fmt.Sprintf("%s[%d]", key, i), tag, v.Index(i), do)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			switch name, option, _ := strings.Cut(field.Tag.Get("yaml"), ","); {
			case option == "inline":
				texts(key, "", v.Field(i), do)
			case name != "-":
				texts(strings.TrimPrefix(key+"."+name, "."), field.Tag, v.Field(i), do)
			}
		}
	case reflect.String:
		if v.Len() > 0 {
			do(key, tag, v)
		}
	}
}
