package config

import (
	"embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
)

// sources declare the configuration.
//
//go:embed config.go sidecar.go generate.go sidecarkeys.go node.go trigger.go control.go reputation.go
//go:embed verification.go disputes.go
var sources embed.FS

// optionDoc is one key of a configuration type with its comment.
type optionDoc struct{ key, comment string }

// configDocs returns the keys of every configuration type with their comments, by the type's name.
func configDocs() (map[string][]optionDoc, error) {
	entries, err := sources.ReadDir(".")
	if err != nil {
		return nil, err
	}
	options := make(map[string][]optionDoc)
	for _, entry := range entries {
		source, err := sources.ReadFile(entry.Name())
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(token.NewFileSet(), entry.Name(), source, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		addOptions(options, file)
	}
	return options, nil
}

func addOptions(options map[string][]optionDoc, file *ast.File) {
	for _, decl := range file.Decls {
		g, ok := decl.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		spec, ok := g.Specs[0].(*ast.TypeSpec)
		if !ok {
			continue
		}
		fields, ok := spec.Type.(*ast.StructType)
		if !ok {
			continue
		}
		for _, f := range fields.Fields.List {
			if f.Tag == nil || len(f.Names) == 0 {
				continue
			}
			key, _, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("yaml"), ",")
			if key == "-" { // not a key of the file
				continue
			}
			// A comment begins with the field's Go name; the reference shows the key.
			comment := strings.Replace(oneLine(f.Doc), f.Names[0].Name, "`"+key+"`", 1)
			options[spec.Name.Name] = append(options[spec.Name.Name], optionDoc{key, comment})
		}
	}
}

func oneLine(g *ast.CommentGroup) string { return strings.Join(strings.Fields(g.Text()), " ") }

type keyInfo struct {
	name   string
	of     reflect.Type
	owner  string // the Go type that declares it
	reload bool   // a reload applies it
	need   bool
	one    []string // its allowed values; nil for any
	from   string   // its bounds; empty for none
	to     string
}

// rules says what the tags of a key demand, in words.
func (k keyInfo) rules() (text string) {
	switch {
	case k.from != "":
		text = " From " + k.from + " to " + k.to + "."
	case k.to != "":
		text = " At most " + k.to + "."
	}
	if len(k.one) > 0 && !k.need {
		text += " Default " + k.one[0] + "."
	}
	return text
}

// keysOf lists the keys of a type, including those of inlined types.
func keysOf(t reflect.Type) []keyInfo {
	var out []keyInfo
	for i := range t.NumField() {
		f := t.Field(i)
		key, option, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case option == "inline":
			out = append(out, keysOf(f.Type)...)
			continue
		case key == "-":
			continue
		}
		out = append(out, keyInfo{
			name: key, of: f.Type, owner: t.Name(), reload: f.Tag.Get("reload") != "", need: f.Tag.Get("need") != "",
			one: strings.Fields(f.Tag.Get("one")), from: f.Tag.Get("from"), to: f.Tag.Get("to"),
		})
	}
	return out
}

// Schema returns the JSON Schema of a configuration file, by the name of its kind.
func Schema(name string) (map[string]any, error) {
	options, err := configDocs()
	if err != nil {
		return nil, err
	}
	for _, kind := range fileKinds {
		if kind.schema == name && name != "" {
			s := schema(kind.keys, options)
			s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
			return s, nil
		}
	}
	return nil, fmt.Errorf("%q is not serve, trigger, control, reputation or root", name)
}

func schema(t reflect.Type, options map[string][]optionDoc) map[string]any {
	switch {
	case t == reflect.TypeFor[Duration]():
		return map[string]any{"type": "string", "pattern": `^([0-9.]+(ns|us|ms|s|m|h))+$`}
	case t.Kind() == reflect.Pointer:
		return schema(t.Elem(), options)
	case t.Kind() == reflect.Slice:
		return map[string]any{"type": "array", "items": schema(t.Elem(), options)}
	case t.Kind() == reflect.String:
		return map[string]any{"type": "string"}
	case t.Kind() == reflect.Bool:
		return map[string]any{"type": "boolean"}
	case t.Kind() == reflect.Float64:
		return map[string]any{"type": "number"}
	case t.Kind() == reflect.Struct:
		properties, required := make(map[string]any), []string{}
		for _, f := range keysOf(t) {
			p := schema(f.of, options)
			if len(f.one) > 0 {
				p["enum"] = f.one
			}
			if f.need {
				required = append(required, f.name)
			}
			for _, o := range options[f.owner] {
				if o.key == f.name {
					p["description"] = o.comment + f.rules()
				}
			}
			properties[f.name] = p
		}
		return map[string]any{
			"type": "object", "additionalProperties": false, "properties": properties, "required": required,
		}
	case t.Kind() == reflect.Map:
		return map[string]any{"type": "object"}
	default:
		return map[string]any{"type": "integer"}
	}
}
