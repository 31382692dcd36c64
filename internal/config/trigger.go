package config

import "github.com/actionproof/mediator/trigger"

// Trigger configures the trigger service: mediator trigger.
type Trigger struct {
	File    `yaml:"-"`
	Process `yaml:",inline"`

	// Listen is the address for webhooks.
	Listen string `yaml:"listen" is:"address"`
	// TLSCertificate is a PEM file, reread on a change. Default: plain HTTP.
	TLSCertificate string `yaml:"tlsCertificate" is:"path"`
	// TLSKey is the PEM file of its key.
	TLSKey string `yaml:"tlsKey" is:"path"`
	// Internal is the sidecars' endpoint, out of the agent's reach.
	Internal Endpoint `yaml:"internal" need:"yes"`
	// State is the event store's folder. It must exist and belong to the service's user alone.
	State string `yaml:"state" is:"path" need:"yes"`
	// Store keeps events.
	Store Store `yaml:"store"`
	// EventSecretFile holds at least 32 bytes, the same for all replicas. It authenticates events. Required with
	// store.postgres, and only there.
	EventSecretFile string `yaml:"eventSecretFile" is:"path"`
	// Keys are the two signing keys.
	Keys TriggerKeys `yaml:"keys" need:"yes"`
	// MaxAge bounds the time from an event's arrival to its session and posts. Default 15m.
	MaxAge Duration `yaml:"maxAge"`
	// Budget bounds the posts of one action per event. Default 1.
	Budget int `yaml:"budget"`
	// Retention keeps an event this long after maxAge. Records that detect repeated deliveries always
	// stay. Default 720h.
	Retention Duration `yaml:"retention"`
	// Sources are where events come from.
	Sources []Source `yaml:"sources" reload:"yes"`

	// StoreDSN is how to connect to the store's database; empty if the store is a file.
	StoreDSN string `yaml:"-" of:"store.postgres.dsnFile"`
	// EventSecret is the content of EventSecretFile.
	EventSecret string `yaml:"-" of:"eventSecretFile"`
	// SourceList has a source for each of Sources.
	SourceList []trigger.Source `yaml:"-"`
}

// TriggerKeys are the trigger service's two roles.
type TriggerKeys struct {
	// Origin is the source verifier's key, for trigger origin proofs.
	Origin AudienceKey `yaml:"origin" need:"yes"`
	// Receipt is the trigger mediator's key, for trigger receipts.
	Receipt AudienceKey `yaml:"receipt" need:"yes"`
}

// AudienceKey is a signing role with an audience of its own.
type AudienceKey struct {
	SigningKey `yaml:",inline"`
	// Audience is the aud of its signatures.
	Audience string `yaml:"audience" need:"yes"`
}

// Source is one source of events. Exactly one of its kinds is set.
type Source struct {
	// Name appears in events, artifacts and the webhook's path /hooks/NAME.
	Name string `yaml:"name" need:"yes"`
	// GitHub receives GitHub's webhooks.
	GitHub *GitHub `yaml:"github"`
	// StandardWebhooks receives webhooks of the Standard Webhooks specification.
	StandardWebhooks *Webhook `yaml:"standardWebhooks"`
	// Engine receives a policy engine's decisions, as Standard Webhooks.
	Engine *Webhook `yaml:"engine"`
	// Schedule makes events by a cron expression.
	Schedule *Schedule `yaml:"schedule"`
	// Queue claims messages from a spool directory.
	Queue *Queue `yaml:"queue"`
}

// GitHub configures a GitHub webhook.
type GitHub struct {
	// SecretFiles hold the webhook's secrets: several during a rotation, none shared with another GitHub source.
	SecretFiles []string `yaml:"secretFiles" is:"path" need:"yes"`
	// Events start a run, each written as event or event.action, such as release.published.
	Events []string `yaml:"events" need:"yes"`
	// Human are events that a human requested, such as workflow_dispatch; they never justify a post.
	Human []string `yaml:"human"`
}

// Webhook configures a signed webhook.
type Webhook struct {
	// SecretFiles hold the secrets (whsec_...): several during a rotation, none shared with another standardWebhooks or
	// engine.
	SecretFiles []string `yaml:"secretFiles" is:"path" need:"yes"`
}

// Schedule configures a schedule.
type Schedule struct {
	// Cron is a five-field cron expression in UTC, or @every and a period, such as @every 15m. Times that pass while the
	// trigger service is down are lost.
	Cron string `yaml:"cron" need:"yes"`
	// Payload of each event, for the agent.
	Payload map[string]any `yaml:"payload"`
}

// Queue configures a spool directory with the folders new, claimed and refused.
type Queue struct {
	// Dir is the spool directory. Producers move finished files into its "new".
	Dir string `yaml:"dir" is:"path" need:"yes"`
	// Owners are users whose files count, besides the service's user and the directory's owner.
	Owners []uint32 `yaml:"owners"`
}
