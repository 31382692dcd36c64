package setup

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/custody/vault/bootstrap"
	"github.com/actionproof/mediator/internal/preset"
)

// exampleSources returns the sources of the trigger service's example, by name and in its order.
func exampleSources() (order []string, texts map[string]string) {
	_, list, _ := strings.Cut(string(configs.Examples["trigger.yaml"]), "\nsources:")
	texts = make(map[string]string)
	const item = "\n  - name: "
	for _, source := range strings.Split(strings.TrimRight(list, "\n"), item)[1:] {
		name, _, _ := strings.Cut(source, "\n")
		order, texts[name] = append(order, name), item+source
	}
	return order, texts
}

// edit changes a copy of an example. Its error names the first text that the example lacks.
type edit struct {
	text string
	err  error
}

func (e *edit) replace(old, with string) {
	if !strings.Contains(e.text, old) && e.err == nil {
		e.err = fmt.Errorf("the example has no %q", old)
	}
	e.text = strings.Replace(e.text, old, with, 1)
}

// cut removes what is from one text to another.
func (e *edit) cut(from, to string) {
	_, after, _ := strings.Cut(e.text, from)
	middle, _, _ := strings.Cut(after, to)
	e.replace(from+middle+to, to)
}

// end removes a text and all that follows.
func (e *edit) end(from string) {
	_, after, _ := strings.Cut(e.text, from)
	e.replace(from+after, "")
}

func (s Setup) text(name string, a Answers) ([]byte, error) {
	e := edit{text: strings.ReplaceAll(string(configs.Examples[name]), "/etc/mediator/", "")}
	if name == "manifest.yaml" || name == "policy.yaml" {
		return []byte(e.text), nil
	}
	sidecar, registry, agent, err := s.users(a)
	if err != nil {
		return nil, err
	}
	e.replace("agent: {uid: 2000}", "agent: {"+agent+"}")
	if a.Vault != nil {
		e.replace("custody: {type: memory}", a.Vault.custody())
	}
	// Who may connect to a socket: the sidecar asks the others, and the registry asks all.
	admit := fmt.Sprintf(", uids: [%d, %d]}\n", sidecar, registry)
	switch name {
	case "mediator.yaml":
		e.replace("admin.sock}\n", fmt.Sprintf("admin.sock, uids: [%d]}\n", registry))
		e.end("\n# Calls that post.")
		if a.Node {
			e.replace("# reputation: {", "reputation: {")
		}
		if e.err == nil {
			return s.rules([]byte(e.text), a)
		}
	case "trigger.yaml":
		e.replace("trigger.sock}\n", "trigger.sock"+admit)
		e.end("\nsources:")
		e.text += "\nsources:"
		_, sources := exampleSources()
		for _, name := range a.Sources {
			e.text += sources[name]
		}
		e.text += "\n"
	case "control.yaml":
		e.replace("control.sock}\n", "control.sock"+admit)
	case "reputation.yaml":
		e.replace("reputation.sock}\n", "reputation.sock"+admit)
		e.cut("public: ", "state: ") // it needs a certificate
	}
	return []byte(e.text), e.err
}

// users returns the user of the sidecar, that of the registry, and the agent's as a configuration names it.
func (s Setup) users(a Answers) (sidecar, registry uint32, agent string, err error) {
	var found [3]User
	for i, name := range []string{"mediator-serve", "mediator-registry", a.Agent} {
		if found[i], err = s.User(name); err != nil {
			return 0, 0, "", err
		}
	}
	agent = fmt.Sprintf("uid: %d", found[2].UID)
	if groups := found[2].Groups; len(groups) > 0 {
		agent += ", gids: [" + strings.ReplaceAll(strings.Trim(fmt.Sprint(groups), "[]"), " ", ", ") + "]"
	}
	return found[0].UID, found[1].UID, agent, nil
}

func (s Setup) rules(file []byte, a Answers) ([]byte, error) {
	has := func(secret string) bool {
		_, err := os.Stat(filepath.Join(s.Dir, secret))
		return err == nil
	}
	for _, name := range a.Presets {
		p, err := preset.Find(name)
		if err != nil {
			return nil, err
		}
		if file, err = p.Merge(file, has); err != nil {
			return nil, err
		}
	}
	return file, nil
}

func (v *Vault) custody() string {
	var keys []string
	for _, r := range append(slices.Clone(bootstrap.Roles), bootstrap.Log) {
		keys = append(keys, r.Key)
	}
	text := "custody:\n  type: vault\n  vault:\n    address: " + v.Address + "\n"
	if v.CA != "" {
		text += "    ca: " + strconv.Quote(v.CA) + "\n"
	}
	return text + "    keys: [" + strings.Join(keys, ", ") +
		"]\n    auth:\n      appRole: {role: \"mediator-{role}\", " +
		"roleIDFile: \"secrets/{role}.role-id\", secretIDFile: \"secrets/{role}.secret-id\"}"
}

var webhookSecret = regexp.MustCompile(`secrets/[a-z-]+`)

// webhookSecrets returns the files that a new configuration of the trigger service names.
func webhookSecrets(text []byte) (out []string) {
	for _, name := range webhookSecret.FindAll(text, -1) {
		out = append(out, string(name))
	}
	slices.Sort(out)
	return slices.Compact(out)
}
