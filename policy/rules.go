package policy

import (
	"errors"
	"fmt"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"

	"github.com/actionproof/mediator/evidence"
)

// Effects of a rule.
const (
	effectAllow = "allow"
	effectDeny  = "deny"
)

// maxRuleCost bounds the evaluation of one rule, in CEL's cost units.
const maxRuleCost = 10_000

// rulesFile is the policy file.
type rulesFile struct {
	Version string     `yaml:"version" json:"version"`
	Rules   []ruleFile `yaml:"rules" json:"rules"`
}

type ruleFile struct {
	Name   string `yaml:"name" json:"name"`
	Effect string `yaml:"effect" json:"effect"`
	When   string `yaml:"when" json:"when"`
}

// Rules are the compiled rules of a policy file: CEL conditions over typed variables. A rule that denies wins; without a rule that
// allows, the answer is no; an evaluation that fails denies.
type Rules struct {
	rules []rule
	hash  string
}

type rule struct {
	name, effect string
	program      cel.Program
}

// variables are what conditions see, each with its type, so that a misspelt name does not compile.
var variables = map[string]*cel.Type{
	"subject": cel.StringType, "action": cel.StringType, "resource": cel.StringType,
	"method": cel.StringType, "scheme": cel.StringType, "host": cel.StringType, "path": cel.StringType, "rule": cel.StringType,
	"content_kind": cel.StringType, "size": cel.IntType,
	"trigger_kind": cel.StringType, "trigger_source": cel.StringType, "event_id": cel.StringType, "verification_method": cel.StringType,
	"runtime": cel.StringType, "session": cel.StringType, "now": cel.TimestampType,
}

// ParseRules reads a policy file strictly, and compiles and type-checks every condition.
func ParseRules(raw []byte) (*Rules, error) {
	var f rulesFile
	if err := decodeStrict(raw, &f); err != nil {
		return nil, evidence.Refuse("policy_malformed", "the policy file is malformed: %w", err)
	}
	options := make([]cel.EnvOption, 0, len(variables))
	for name, t := range variables {
		options = append(options, cel.Variable(name, t))
	}
	env, err := cel.NewEnv(options...)
	if err != nil {
		return nil, err
	}
	out := &Rules{hash: mustHash(f)}
	var found []error
	names := make(map[string]bool)
	allows := false
	for i, r := range f.Rules {
		compiled, err := compile(env, r)
		if err != nil {
			found = append(found, fmt.Errorf("rules[%d] (%s): %w", i, r.Name, err))
			continue
		}
		if names[r.Name] {
			found = append(found, fmt.Errorf("rules[%d]: another rule has the name %q", i, r.Name))
		}
		names[r.Name] = true
		allows = allows || r.Effect == effectAllow
		out.rules = append(out.rules, compiled)
	}
	if len(found) == 0 && !allows {
		found = append(found, errors.New("no rule allows anything"))
	}
	if len(found) > 0 {
		return nil, evidence.Refuse("policy_malformed", "the policy file is malformed: %w", errors.Join(found...))
	}
	return out, nil
}

func compile(env *cel.Env, r ruleFile) (rule, error) {
	if r.Name == "" || r.Effect != effectAllow && r.Effect != effectDeny {
		return rule{}, fmt.Errorf("a rule needs a name, and an effect that is %s or %s", effectAllow, effectDeny)
	}
	ast, issues := env.Compile(r.When)
	if issues.Err() != nil {
		return rule{}, issues.Err() // with line, column and a caret
	}
	if ast.OutputType() != cel.BoolType {
		return rule{}, fmt.Errorf("the condition is a %s, not true or false", ast.OutputType())
	}
	program, err := env.Program(ast, cel.CostLimit(maxRuleCost), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return rule{}, err
	}
	return rule{name: r.Name, effect: r.Effect, program: program}, nil
}

// Hash returns the hash of the policy file's canonical form: the policyHash of artifacts and manifest.
func (r *Rules) Hash() string { return r.hash }

// facts are what a decision rests on.
type facts struct {
	binding evidence.Binding
	call    Call
	origin  evidence.TriggerOriginProof
	runtime string
	session string
	now     time.Time
}

// decide returns the name of the rule that allows, or why none does.
func (r *Rules) decide(f facts) (string, error) {
	vars := map[string]any{
		"subject": f.binding.Subject, "action": f.binding.Action, "resource": f.binding.Resource,
		"method": f.call.Method, "scheme": f.call.Scheme, "host": f.call.Host, "path": f.call.Path, "rule": f.call.Rule,
		"content_kind": f.call.ContentKind, "size": f.call.Size,
		"trigger_kind": f.origin.Kind, "trigger_source": f.origin.Source, "event_id": f.origin.EventID, "verification_method": f.origin.VerificationMethod,
		"runtime": f.runtime, "session": f.session, "now": f.now,
	}
	allowed := ""
	for _, rule := range r.rules {
		v, _, err := rule.program.Eval(vars)
		if err != nil {
			return "", evidence.Refuse("policy_error", "the rule %s could not be evaluated, which denies: %v", rule.name, err)
		}
		if v != types.True {
			continue
		}
		if rule.effect == effectDeny {
			return "", evidence.Refuse("policy_denied", "the rule %s denies %s on %s", rule.name, f.binding.Action, f.binding.Resource)
		}
		if allowed == "" {
			allowed = rule.name
		}
	}
	if allowed == "" {
		return "", evidence.Refuse("policy_denied", "no rule allows %s on %s", f.binding.Action, f.binding.Resource)
	}
	return allowed, nil
}
