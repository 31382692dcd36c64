package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/actionproof/mediator/evidence"
)

// Issue is a safeguard that a manifest lacks.
type Issue struct {
	Code     string `json:"code"` // stable, one for each weakness of a field
	Path     string `json:"path"` // of the field
	Sentence string `json:"sentence"`
	Mend     string `json:"mend"`
}

// Bounds on the ages that a policy accepts, and on a capability's lifetime.
const (
	// MaxFresh bounds each artifact that is made for one post.
	MaxFresh = time.Minute
	// MaxDeploymentAge bounds the deployment certificate, so that there is an audit at least every week.
	MaxDeploymentAge = 7 * 24 * time.Hour
	// MaxSignerAge bounds custody certificates, as their longest lifetime does.
	MaxSignerAge     = 400 * 24 * time.Hour
	MaxRevocationAge = 7 * 24 * time.Hour
	// MaxReputationAge bounds reputation tokens, as their longest lifetime does.
	MaxReputationAge = 10 * time.Minute
	// MaxDirectoryAge bounds how long verifiers cache keys of Web Bot Auth. A rotation waits longer for a new version.
	MaxDirectoryAge = 2 * time.Minute
	// maxEnvironments bounds alsoEnvironmentHashes.
	maxEnvironments = 8
	// minAge is the shortest age: artifacts count whole seconds.
	minAge = time.Second
)

// Audit lists every missing safeguard (seed: auditStrictAutonomousDeploymentManifest).
func (m *Manifest) Audit() []Issue {
	var a audit
	a.identity(m)
	roles := m.roles()
	for _, r := range roles {
		a.role(r)
	}
	if allowed := m.RuntimePolicy.AllowedKeyCustody; allowed != nil { // optional in a runtime policy
		a.custody(roles[0], allowed)
	}
	a.lists(m.lists())
	a.pattern(m.RuntimePolicy.AllowedRuntimeIDs, "runtime_runtime_ids", runtimePath+".allowedRuntimeIds")
	a.pattern(m.AgentSessionReceiptPolicy.AllowedRuntimeIDs, "agent_session_runtime_ids",
		sessionPath+".allowedRuntimeIds")
	a.requirements(m.requirements())
	a.triggers(&m.RuntimePolicy)
	a.denied(m.AgentSessionReceiptPolicy.DeniedInputKinds, deniedInputKinds, "agent_session_input_kind_",
		sessionPath+".deniedInputKinds", "input kind")
	a.hashes(m.hashes())
	for _, d := range m.durations() {
		if d.ms != 0 || !d.optional {
			a.duration(d)
		}
	}
	a.separation(roles)
	for _, c := range controls {
		a.when(c.got(&m.Controls) != c.want, c.code(), "controls."+c.name, c.sentence, c.mend)
	}
	return a.issues
}

// AuditRuntimePolicy lists a runtime policy's missing safeguards (seed: auditAutonomousActionPolicy).
func AuditRuntimePolicy(p RuntimePolicy) []Issue {
	m := Manifest{RuntimePolicy: p}
	return slices.DeleteFunc(m.Audit(), func(i Issue) bool {
		return i.Path != runtimePath && !strings.HasPrefix(i.Path, runtimePath+".")
	})
}

type audit struct{ issues []Issue }

const setTrue = "Set it to true."

func (a *audit) when(weak bool, code, path, sentence, mend string) {
	if weak {
		a.issues = append(a.issues, Issue{Code: code, Path: path, Sentence: sentence, Mend: mend})
	}
}

func (a *audit) identity(m *Manifest) {
	a.when(m.Version != version1_0 && m.Version != version1_1, "version_unknown", "version",
		"The manifest is of a version that is not known here, so its fields may mean something else.",
		`Write version: "`+version1_0+`" or "`+version1_1+`".`)
	a.when(m.DeploymentID == "", "deployment_id_missing", "deploymentId", "The manifest names no deployment.",
		"Name the deployment.")
	for _, later := range []struct {
		isThere    bool
		code, name string
	}{
		{m.AutonomyPolicy != nil, "autonomy", autonomyPath},
		{m.AgentStatementPolicy != nil, "agent_statement", statementPath},
		{m.WebBotAuthPolicy != nil, "web_bot_auth", webBotAuthPath},
	} {
		a.when(m.Version == version1_0 && later.isThere, later.code+"_version", "version",
			"A manifest of this version has no "+later.name+", so other verifiers refuse it.",
			`Write version: "`+version1_1+`", or leave the policy out.`)
	}
	p := m.DeploymentCertificatePolicy
	a.when(m.DeploymentID != "" && len(p.AllowedDeploymentIDs) > 0 && !slices.Contains(p.AllowedDeploymentIDs,
		m.DeploymentID), "deployment_id_not_listed", deploymentPath+".allowedDeploymentIds",
		"This deployment is not among those whose certificate is accepted.", "Add deploymentId to the list.")
}

func (a *audit) triggers(p *RuntimePolicy) {
	a.when(p.RequiredMode != "" && p.RequiredMode != evidence.ModeAutonomous, "runtime_mode_unsafe",
		runtimePath+".requiredMode",
		"The policy asks for a run that is not autonomous.", "Leave it out, or write "+evidence.ModeAutonomous+".")
	a.when(beyond(p.AllowedTriggerKinds, autonomousKinds) || slices.Contains(p.AllowedTriggerKinds, ""),
		"runtime_trigger_kinds_unsafe", runtimePath+".allowedTriggerKinds",
		"The list holds something that no strict policy accepts.",
		"Choose from "+strings.Join(autonomousKinds, ", ")+".")
	if len(p.DeniedTriggerKinds) > 0 {
		a.denied(p.DeniedTriggerKinds, deniedTriggerKinds, "runtime_trigger_kind_", runtimePath+".deniedTriggerKinds",
			"trigger kind")
	}
	a.when(len(p.AlsoEnvironmentHashes) > maxEnvironments, "runtime_also_environment_hashes_many",
		runtimePath+".alsoEnvironmentHashes", "So many programs are no upgrade that passes.",
		fmt.Sprintf("List at most %d.", maxEnvironments))
	a.when(len(p.TriggerReceiptPolicy.AllowedKinds) > 0 && len(p.triggerKinds()) == 0, "runtime_trigger_kinds_none",
		runtimePath+".allowedTriggerKinds",
		"No kind of trigger is left that both this policy and triggerReceiptPolicy allow, so no post can satisfy both.",
		"Allow a kind in both.")
}

func (a *audit) role(r role) {
	for _, l := range []struct {
		values             []string
		code, name, accept string
	}{
		{r.allowed.AllowedIssuers, "issuers", "allowedIssuers", "which issuer is believed"},
		{r.allowed.AllowedAudiences, "audiences", "allowedAudiences", "for whom it must be meant"},
		{r.allowed.AllowedKeyIDs, "key_ids", "allowedKeyIds", "which keys may sign it"},
	} {
		a.when(unsaid(l.values), r.code+"_"+l.code+"_missing", join(r.path, l.name),
			"The policy for the "+r.what+" does not say "+l.accept+".", "List exactly what is accepted.")
	}
	a.when(slices.ContainsFunc(r.allowed.AllowedKeyIDs, evidence.IsSecretID),
		r.code+"_key_ids_shared", join(r.path, "allowedKeyIds"),
		"The policy for the "+r.what+" accepts a shared secret, so anyone who verifies could have signed.",
		"List keys that the key registry certifies.")
	a.pattern(r.allowed.AllowedKeyIDs, r.code+"_key_ids", join(r.path, "allowedKeyIds"))
	a.duration(duration{ms: r.ms, bound: r.bound, code: r.code + "_max_age", path: join(r.path, r.field),
		what: "the age of the " + r.what})
	if r.keys != nil {
		a.custody(r, r.keys.AllowedKeyCustody)
		a.when(!r.keys.RequireNonExportableKey, r.code+"_key_exportable", join(r.path, "requireNonExportableKey"),
			"A key that can be exported, and so copied, is accepted.", setTrue)
	}
}

// pattern demands that a * is the whole last segment of an entry: anywhere else it matches nothing, or too much.
func (a *audit) pattern(entries []string, code, path string) {
	odd := func(entry string) bool {
		prefix := strings.TrimSuffix(entry, evidence.AnySegment)
		return prefix == "" && entry != "" || strings.Contains(prefix, "*")
	}
	a.when(slices.ContainsFunc(entries, odd), code+"_pattern", path,
		"An entry has a * that is not its whole last segment, so it does not match what it seems to.",
		"Write a * only at the end, after a name and a slash, such as pod/agents/*.")
}

func (a *audit) custody(r role, allowed []string) {
	a.when(unsaid(allowed) || beyond(allowed, protectedCustody), r.code+"_key_custody_weak", join(r.path,
		"allowedKeyCustody"), "The policy for the "+r.what+" accepts keys outside of protected custody.",
		"List nothing but "+strings.Join(protectedCustody, " and ")+".")
}

func (a *audit) lists(rows []list) {
	for _, r := range rows {
		a.when(unsaid(r.values), r.code+"_missing", r.path, "The policy does not say which "+r.what+" are accepted.",
			"List exactly what is accepted.")
		a.when(r.from != nil && beyond(r.values, r.from), r.code+"_unsafe", r.path,
			"The list holds something that no strict policy accepts.", "Choose from "+strings.Join(r.from, ", ")+".")
	}
}

func (a *audit) requirements(rows []requirement) {
	for _, r := range rows {
		a.when(!r.set, r.code, r.path, r.sentence, setTrue)
	}
}

func (a *audit) denied(kinds, all []string, code, path, what string) {
	for _, kind := range all {
		a.when(!slices.Contains(kinds, kind), code+kind+"_not_denied", path,
			"The list does not deny the "+what+" "+kind+".", "Add "+kind+" to the list.")
	}
}

func (a *audit) hashes(rows []hash) {
	for _, r := range rows {
		switch {
		case r.value == "" && r.optional:
		case !evidence.IsHash(r.value):
			a.when(true, r.code+"_missing", r.path, "This is no lowercase hex SHA-256, so nothing is pinned.",
				"Set it to the SHA-256 of the required value.")
		case r.same != "":
			a.when(r.value != r.same, r.code+"_differs", r.path,
				"This pins something else than runtimePolicy does, so no post can satisfy both.",
				"Use the hash in runtimePolicy.")
		}
	}
}

func (a *audit) duration(d duration) {
	mend := fmt.Sprintf("Set it to between %d and %d.", minAge.Milliseconds(), d.bound.Milliseconds())
	a.when(d.ms < minAge.Milliseconds(), d.code+"_missing", d.path, "There is no usable bound on "+d.what+".", mend)
	a.when(d.ms > d.bound.Milliseconds(), d.code+"_over_bound", d.path,
		fmt.Sprintf("The bound on %s, %d ms, is longer than the %d ms that are safe.", d.what, d.ms,
			d.bound.Milliseconds()), mend)
}

// separation demands that no two roles share an issuer or a key, because its holder could act as both witnesses. All
// versions of a key are one key, and a pattern shares each key that it matches.
func (a *audit) separation(roles []role) {
	var issuers, keys owners
	for _, r := range roles {
		for _, issuer := range r.allowed.AllowedIssuers {
			a.exclusive(&issuers, issuer, "issuer_shared", "issuer "+issuer, join(r.path, "allowedIssuers"), r)
		}
		for _, kid := range r.allowed.AllowedKeyIDs {
			a.exclusive(&keys, evidence.KeyName(kid), "key_purpose", "key "+evidence.KeyName(kid),
				join(r.path, "allowedKeyIds"), r)
		}
	}
}

type owners []struct {
	value string
	role  role
}

func (a *audit) exclusive(all *owners, value, code, what, path string, r role) {
	if value == "" {
		return
	}
	for _, o := range *all {
		if o.role.path != r.path &&
			(evidence.MatchName([]string{o.value}, value) || evidence.MatchName([]string{value}, o.value)) {
			a.when(true, code, path, "The "+what+" may sign the "+r.what+" and the "+o.role.what+".",
				"Give each role an issuer and a key of its own.")
			break
		}
	}
	*all = append(*all, owners{{value, r}}...)
}

func unsaid(values []string) bool { return len(values) == 0 || slices.Contains(values, "") }

func beyond(values, allowed []string) bool {
	return slices.ContainsFunc(values, func(v string) bool { return v != "" && !slices.Contains(allowed, v) })
}
