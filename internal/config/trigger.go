package config

import "github.com/actionproof/mediator/trigger"

// Trigger configures the trigger service: mediator trigger.
type Trigger struct {
	File    `yaml:"-"`
	Process `yaml:",inline"`

	// Listen is the address for webhooks.
	Listen string `yaml:"listen" is:"listen"`
	// TLSCertificate is a PEM file for `listen`, reread when it changes. Default: plain HTTP.
	TLSCertificate string `yaml:"tlsCertificate" is:"public"`
	// TLSKey is the PEM file of its key.
	TLSKey string `yaml:"tlsKey" is:"secret"`
	// Internal is the endpoint for sidecars, out of agents' reach.
	Internal Endpoint `yaml:"internal" need:"yes"`
	// State is the event store's folder, for the service's user alone.
	State string `yaml:"state" is:"folder" need:"yes"`
	// Store keeps events.
	Store Store `yaml:"store"`
	// EventSecretFile holds a secret that authenticates events: at least 32 bytes, the same for all replicas. Only with
	// store.postgres, which requires it.
	EventSecretFile string `yaml:"eventSecretFile" is:"secret" least:"32"`
	// Keys are the two signing keys.
	Keys TriggerKeys `yaml:"keys" need:"yes"`
	// MaxAge bounds the age at which an event can open a session and allow posts. Default 15m.
	MaxAge Duration `yaml:"maxAge"`
	// Budget bounds the posts of each action for one event. Default 1.
	Budget int `yaml:"budget"`
	// Retention keeps an event this long after `maxAge`; repeated deliveries are detected for ever. Default 720h.
	Retention Duration `yaml:"retention"`
	// Sources are the sources of events. Each has `name` and one other key.
	Sources []Source `yaml:"sources" reload:"yes"`

	// EventSecret is the content of EventSecretFile.
	EventSecret string `yaml:"-" of:"eventSecretFile"`
	// SourceList has a source for each of Sources.
	SourceList []trigger.Source `yaml:"-"`
}

type TriggerKeys struct {
	// Origin signs trigger origin proofs.
	Origin AudienceKey `yaml:"origin" need:"yes"`
	// Receipt signs trigger receipts.
	Receipt AudienceKey `yaml:"receipt" need:"yes"`
}

// AudienceKey is a signing role with an audience of its own.
type AudienceKey struct {
	SigningKey `yaml:",inline"`
	// Audience is the aud claim of the key's tokens.
	Audience string `yaml:"audience" need:"yes"`
}

// Source is one source of events. Exactly one of its kinds is set.
type Source struct {
	// Name appears in evidence and in the webhook's path, /hooks/NAME.
	Name string `yaml:"name" need:"yes" unique:"name"`
	// GitHub receives its webhooks.
	GitHub *GitHub `yaml:"github" choice:"yes"`
	// StandardWebhooks receives Standard Webhooks.
	StandardWebhooks *Webhook `yaml:"standardWebhooks" choice:"yes"`
	// Engine receives a policy engine's decisions by Standard Webhooks.
	Engine *Webhook `yaml:"engine" choice:"yes"`
	// Schedule makes events at set times.
	Schedule *Schedule `yaml:"schedule" choice:"yes"`
	// Queue makes events from files in a spool directory.
	Queue *Queue `yaml:"queue" choice:"yes"`
}

type GitHub struct {
	// SecretFiles hold its secrets: several during a rotation, none shared with another source.
	SecretFiles []string `yaml:"secretFiles" is:"secret" need:"yes"`
	// Events are the events that start a run, as NAME or NAME.ACTION, such as release.published.
	Events []string `yaml:"events" need:"yes"`
	// Human are the events that a human requests, such as workflow_dispatch; they never allow a post.
	Human []string `yaml:"human"`
}

type Webhook struct {
	// SecretFiles hold the secrets (whsec_...): several during a rotation, none shared with another source.
	SecretFiles []string `yaml:"secretFiles" is:"secret" need:"yes"`
}

type Schedule struct {
	// Cron is a five-field cron expression in UTC, or such as @every 15m. Times at which the service is down are
	// skipped.
	Cron string `yaml:"cron" need:"yes"`
	// Payload is the content of each event, for the agent.
	Payload map[string]any `yaml:"payload"`
}

// Queue configures a spool directory with the folders new, claimed and refused.
type Queue struct {
	// Dir is the spool directory. Producers move finished files into its folder "new".
	Dir string `yaml:"dir" is:"secret" need:"yes"`
	// Owners are users whose files are accepted, besides the service's user and the directory's owner.
	Owners []uint32 `yaml:"owners"`
}
