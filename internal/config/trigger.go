package config

import "github.com/actionproof/mediator/trigger"

// Trigger configures the trigger service: mediator trigger.
type Trigger struct {
	File `yaml:"-"`

	// Listen is the address on which webhooks arrive. Empty: none do.
	Listen string `yaml:"listen"`
	// TLSCertificate and TLSKey are PEM files; with them webhooks arrive over HTTPS. Both are read again when they change. Default: plain HTTP behind a terminating proxy.
	TLSCertificate string `yaml:"tlsCertificate" is:"path"`
	// TLSKey is the key of TLSCertificate.
	TLSKey string `yaml:"tlsKey" is:"path"`
	// Internal is where sidecars reach the service, out of the agent's reach. Required.
	Internal Endpoint `yaml:"internal"`
	// State is the folder of the event store; it must exist and belong to the service's user alone. Required.
	State string `yaml:"state" is:"path"`
	// Custody says where the service's two signing keys are.
	Custody Custody `yaml:"custody"`
	// Keys names the two signing roles.
	Keys TriggerKeys `yaml:"keys"`
	// Trust names the trust bundle: a version of a key signs once it is certified there.
	Trust Trust `yaml:"trust"`
	// Agent is the user that the agent runs as.
	Agent Agent `yaml:"agent"`
	// MaxAge is how long after its arrival an event can still open a session and be the reason of a post. Default 15m.
	MaxAge Duration `yaml:"maxAge"`
	// Budget is how many posts of one action an event pays for. Default 1.
	Budget int `yaml:"budget"`
	// Retention is how long an event is kept after it has grown too old, and a message of a queue after it was taken or refused; 0s keeps
	// them for ever. What was good for one event is known for ever. Default 720h, 30 days.
	Retention *Duration `yaml:"retention"`
	// Sources are where events come from.
	Sources []Source `yaml:"sources" reload:"yes"`
	// Confine says what the process keeps for itself once it serves.
	Confine Confine `yaml:"confine"`
	// Log configures the log on standard error.
	Log Log `yaml:"log"`

	// SourceList is what the checks have made of Sources, in their order.
	SourceList []trigger.Source `yaml:"-"`
}

// TriggerKeys are the trigger service's two roles. Each has a key, an issuer and an audience of its own.
type TriggerKeys struct {
	// Origin is the source verifier, which signs trigger origin proofs.
	Origin AudienceKey `yaml:"origin"`
	// Receipt is the trigger mediator, which signs trigger receipts.
	Receipt AudienceKey `yaml:"receipt"`
}

// AudienceKey is a signing role with an audience of its own.
type AudienceKey struct {
	SigningKey `yaml:",inline"`
	// Audience is the aud of what it signs. Required.
	Audience string `yaml:"audience"`
}

// Source is one source of events. Exactly one of its kinds is set.
type Source struct {
	// Name of the source, in events and artifacts, and in the webhook's path /hooks/NAME. Required.
	Name string `yaml:"name"`
	// GitHub receives GitHub's webhooks.
	GitHub *GitHub `yaml:"github"`
	// StandardWebhooks receives webhooks of the Standard Webhooks specification.
	StandardWebhooks *Webhook `yaml:"standardWebhooks"`
	// Engine receives a policy engine's decisions, signed as Standard Webhooks.
	Engine *Webhook `yaml:"engine"`
	// Schedule makes an event at each time of a cron expression.
	Schedule *Schedule `yaml:"schedule"`
	// Queue claims messages from a spool directory.
	Queue *Queue `yaml:"queue"`
}

// GitHub configures a GitHub webhook.
type GitHub struct {
	// SecretFiles hold the webhook's secrets, which are no other GitHub source's; several during a rotation. Required.
	SecretFiles []string `yaml:"secretFiles" is:"path"`
	// Events are the events that start a run, each as event or event.action, such as release.published. Required.
	Events []string `yaml:"events"`
	// Human are the events that a human asked for, such as workflow_dispatch: kept, but never the reason of a post. Default none.
	Human []string `yaml:"human"`
}

// Webhook configures a signed webhook.
type Webhook struct {
	// SecretFiles hold the secrets (whsec_...), which are those of no other standardWebhooks or engine; several during a rotation. Required.
	SecretFiles []string `yaml:"secretFiles" is:"path"`
}

// Schedule configures a schedule.
type Schedule struct {
	// Cron is a five-field cron expression. Each time that it names on the zone's clock makes one event: a time that comes twice, as the
	// clock is set back, when it comes first, and a time that is skipped at the end of the gap. Or @every and a period, as in @every 15m,
	// which keeps its pace over such changes. Required.
	Cron string `yaml:"cron"`
	// Timezone is an IANA name. Default UTC.
	Timezone string `yaml:"timezone"`
	// Missed says what becomes of times that passed while no scheduler ran: skip, or latest to make up for the last one. Default skip.
	Missed string `yaml:"missed"`
	// Payload is handed to the agent with each event. Default none.
	Payload map[string]any `yaml:"payload"`
}

// Queue configures a spool directory with the folders new, claimed and done.
type Queue struct {
	// Dir is the directory; producers move finished files into its folder new. Required.
	Dir string `yaml:"dir" is:"path"`
	// Owners are the users, besides the service's own and the directory's owner, whose files are taken. Default none.
	Owners []uint32 `yaml:"owners"`
	// Poll is how often it is looked at. Default 1s.
	Poll Duration `yaml:"poll"`
}
