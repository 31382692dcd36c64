package decide

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/pattern"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strict"
	"github.com/actionproof/mediator/policy"
)

// Effects of a rule.
const (
	effectAllow = "allow"
	effectDeny  = "deny"
)

const (
	rulesVersion = "1.0"

	maxRules     = 256
	maxCondition = 4096   // code points of one condition
	maxNesting   = 64     // levels of one condition
	maxRuleCost  = 10_000 // of one evaluation, in CEL's units; a comparison costs about one
)

// ruleName restricts names, which go into signed decisions, logs and metrics.
var ruleName = pattern.New(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// File is a policy file as written.
type File struct {
	Version string     `yaml:"version" json:"version"`
	Rules   []ruleFile `yaml:"rules" json:"rules"`
}

type ruleFile struct {
	Name   string `yaml:"name" json:"name"`
	Effect string `yaml:"effect,omitempty" json:"effect"` // default: allow
	When   string `yaml:"when" json:"when"`
}

// Rules are the compiled rules of a policy file, with conditions in the Common Expression Language (https://cel.dev). A
// rule that denies wins; at least one must allow; a condition that cannot be evaluated denies. The zero value denies
// everything. Rules are safe for concurrent use.
type Rules struct {
	denies, allows []rule
	hash           string
}

// Allows reports whether any rule allows.
func (r *Rules) Allows() bool { return len(r.allows) > 0 }

type rule struct {
	name    string
	program cel.Program
}

// ParseRules reads a policy file of at most 256 KiB strictly, and compiles and type-checks every condition. Its error
// (config_malformed) lists all findings with their lines.
func ParseRules(raw []byte) (*Rules, error) {
	file, f, err := readFile(raw)
	if err == nil {
		var r *Rules
		if r, err = compile(file, f); err == nil {
			return r, nil
		}
	}
	return nil, malformed(err)
}

func malformed(err error) error {
	return refusal.New("config_malformed", "the policy file is malformed: %w", err)
}

// readFile reads a policy file. Spellings with the same meaning become one.
func readFile(raw []byte) (*strict.File, *File, error) {
	var f File
	file, err := strict.Read(raw, &f, strict.Options{Complete: true, MaxBytes: policy.MaxFile})
	if err == nil {
		err = file.Err("")
	}
	for i := range f.Rules {
		f.Rules[i].Effect = cmp.Or(f.Rules[i].Effect, effectAllow)
		f.Rules[i].When = strings.TrimSpace(f.Rules[i].When) // a block scalar may end with a line break
	}
	return file, &f, err
}

// hash is empty for text that is not UTF-8, which no manifest accepts.
func (f *File) hash() string {
	hash, _ := evidence.HashValue(f)
	return hash
}

// Hash returns the lowercase hex SHA-256 of the canonical JSON of the rules: the policyHash of artifacts and manifest.
// It depends on the conditions' text and order, but not on the file's layout.
func (r *Rules) Hash() string { return r.hash }

// newEnvironment has the standard functions, the variables and no macros: nothing can loop without all, exists and map.
// Integers and fractions compare, as in autonomy.score >= 50.
func newEnvironment() (*cel.Env, error) {
	options := []cel.EnvOption{
		cel.ClearMacros(), cel.CrossTypeNumericComparisons(true), cel.ParserExpressionSizeLimit(maxCondition),
		cel.ParserRecursionLimit(maxNesting),
		cel.ASTValidators(cel.ValidateRegexLiterals(), cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(),
			cel.ValidateHomogeneousAggregateLiterals()),
	}
	for _, v := range variables {
		options = append(options, cel.Variable(v.name, v.t))
	}
	return cel.NewEnv(options...)
}

func compile(file *strict.File, f *File) (*Rules, error) {
	env, err := newEnvironment()
	if err != nil {
		return nil, err
	}
	if f.Version != rulesVersion {
		file.Add("version", "must be %q", rulesVersion)
	}
	if len(f.Rules) > maxRules {
		return nil, fmt.Errorf("there are %d rules; at most %d are allowed", len(f.Rules), maxRules)
	}
	r, names := &Rules{}, make(map[string]bool)
	for i := range f.Rules {
		src, key := &f.Rules[i], fmt.Sprintf("rules[%d]", i)
		switch {
		case !ruleName.MatchString(src.Name):
			file.Add(key+".name", "must match %s, not %.80q", ruleName(), src.Name)
		case names[src.Name]:
			file.Add(key+".name", "is %q, like that of an earlier rule", src.Name)
		}
		names[src.Name] = true
		program, err := compileCondition(env, src.When)
		if err != nil {
			file.Add(key+".when", "(%s) %v", src.Name, err)
			continue
		}
		switch compiled := (rule{src.Name, program}); src.Effect {
		case effectAllow:
			r.allows = append(r.allows, compiled)
		case effectDeny:
			r.denies = append(r.denies, compiled)
		default:
			file.Add(key+".effect", "must be %s or %s, not %.40q", effectAllow, effectDeny, src.Effect)
		}
	}
	r.hash = f.hash()
	return r, file.Err("")
}

// compileCondition compiles a condition. Its errors give their positions in it.
func compileCondition(env *cel.Env, condition string) (cel.Program, error) {
	if condition == "" {
		return nil, errors.New("is empty")
	}
	ast, issues := env.Compile(condition)
	if issues.Err() != nil {
		var found []string
		for _, e := range issues.Errors() {
			found = append(found, fmt.Sprintf("at line %d column %d of the condition: %s", e.Location.Line(),
				e.Location.Column()+1, e.Message))
		}
		return nil, errors.New("does not compile, " + strings.Join(found, "; "))
	}
	if !ast.OutputType().IsExactType(cel.BoolType) {
		return nil, fmt.Errorf("is of type %s; it must be true or false", ast.OutputType())
	}
	return env.Program(ast, cel.CostLimit(maxRuleCost), cel.EvalOptions(cel.OptOptimize), typedComparison())
}

// decide returns the name of the first rule that allows, or why none does (policy_denied or policy_error).
func (r *Rules) decide(f *facts) (string, error) {
	for _, rule := range r.denies {
		holds, err := rule.holds(f)
		if err != nil {
			return "", err
		}
		if holds {
			return "", refusal.New("policy_denied", "the rule %s denies %s on %s", rule.name, f.binding.Action,
				f.binding.Resource)
		}
	}
	for _, rule := range r.allows {
		holds, err := rule.holds(f)
		if err != nil {
			return "", err
		}
		if holds {
			return rule.name, nil
		}
	}
	denied := refusal.New("policy_denied", "no rule allows %s on %s", f.binding.Action, f.binding.Resource)
	if f.autonomy.err != nil { // a rule might have allowed, had it been known
		denied = denied.ForOperator("whose agent's reputation is not known: %v", f.autonomy.err)
	}
	return "", denied
}

// holds evaluates the condition. If it fails because the agent's reputation is missing, the error says why.
func (r rule) holds(f *facts) (bool, error) {
	f.autonomy.missed = nil
	v, _, err := r.program.Eval(activation{f})
	switch {
	case err != nil && f.autonomy.missed != nil:
		return false, f.autonomy.missed
	case err != nil:
		return false, refusal.New("policy_error", "the rule %s cannot be evaluated, so the call is denied: %v", r.name,
			err)
	}
	return v == types.True, nil
}
