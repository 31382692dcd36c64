package main

// triggerConfig configures the trigger service: mediator trigger.
type triggerConfig struct {
	// Listen is the address on which webhooks arrive. Empty: none do.
	Listen string `yaml:"listen"`
	// TLSCertificate and TLSKey are PEM files; with them webhooks arrive over HTTPS. Default: plain HTTP behind a terminating proxy.
	TLSCertificate string `yaml:"tlsCertificate"`
	// TLSKey is the key of TLSCertificate.
	TLSKey string `yaml:"tlsKey"`
	// Internal is where sidecars reach the service, out of the agent's reach. Required.
	Internal endpointConfig `yaml:"internal"`
	// State is the folder of the event store; it must exist and belong to the service's user alone. Required.
	State string `yaml:"state"`
	// Custody says where the service's two signing keys are.
	Custody custodyConfig `yaml:"custody"`
	// Keys names the two signing roles.
	Keys triggerKeys `yaml:"keys"`
	// Trust names the trust bundle: a version of a key signs once it is certified there.
	Trust trustConfig `yaml:"trust"`
	// Agent is the user that the agent runs as.
	Agent agentConfig `yaml:"agent"`
	// MaxAge is how long after its arrival an event can still open a session and be the reason of a post. Default 15m.
	MaxAge duration `yaml:"maxAge"`
	// Budget is how many posts of one action an event pays for. Default 1.
	Budget int `yaml:"budget"`
	// Sources are where events come from.
	Sources []sourceConfig `yaml:"sources" reload:"yes"`
	// Confine says what the process keeps for itself once it serves.
	Confine confineConfig `yaml:"confine"`
	// Log configures the log on standard error.
	Log logConfig `yaml:"log"`
}

// triggerKeys are the trigger service's two roles. Each has a key, an issuer and an audience of its own.
type triggerKeys struct {
	// Origin is the source verifier, which signs trigger origin proofs.
	Origin audienceKey `yaml:"origin"`
	// Receipt is the trigger mediator, which signs trigger receipts.
	Receipt audienceKey `yaml:"receipt"`
}

// audienceKey is a signing role with an audience of its own.
type audienceKey struct {
	keyConfig `yaml:",inline"`
	// Audience is the aud of what it signs. Required.
	Audience string `yaml:"audience"`
}

// sourceConfig is one source of events; exactly one of its kinds is set.
type sourceConfig struct {
	// Name of the source, in events and artifacts, and in the webhook's path /hooks/NAME. Required.
	Name string `yaml:"name"`
	// GitHub receives GitHub's webhooks.
	GitHub *githubConfig `yaml:"github"`
	// StandardWebhooks receives webhooks of the Standard Webhooks specification.
	StandardWebhooks *webhookConfig `yaml:"standardWebhooks"`
	// Engine receives a policy engine's decisions, signed as Standard Webhooks.
	Engine *webhookConfig `yaml:"engine"`
	// Schedule makes an event at each time of a cron expression.
	Schedule *scheduleConfig `yaml:"schedule"`
	// Queue claims messages from a spool directory.
	Queue *queueConfig `yaml:"queue"`
}

// githubConfig configures a GitHub webhook.
type githubConfig struct {
	// SecretFiles hold the webhook's secrets, which are no other GitHub source's; several during a rotation. Required.
	SecretFiles []string `yaml:"secretFiles"`
	// Events are the events that start a run, each as event or event.action, such as release.published. Required.
	Events []string `yaml:"events"`
	// Human are the events that a human asked for, such as workflow_dispatch: kept, but never the reason of a post. Default none.
	Human []string `yaml:"human"`
}

// webhookConfig configures a signed webhook.
type webhookConfig struct {
	// SecretFiles hold the secrets (whsec_...), which are those of no other standardWebhooks or engine; several during a rotation. Required.
	SecretFiles []string `yaml:"secretFiles"`
}

// scheduleConfig configures a schedule.
type scheduleConfig struct {
	// Cron is a five-field cron expression. Required.
	Cron string `yaml:"cron"`
	// Timezone is an IANA name. Default UTC.
	Timezone string `yaml:"timezone"`
	// Missed says what becomes of times that passed while no scheduler ran: skip, or latest to make up for the last one. Default skip.
	Missed string `yaml:"missed"`
	// Payload is handed to the agent with each event. Default none.
	Payload map[string]any `yaml:"payload"`
}

// queueConfig configures a spool directory with the folders new, claimed and done.
type queueConfig struct {
	// Dir is the directory; producers move finished files into its folder new. Required.
	Dir string `yaml:"dir"`
	// Owners are the users, besides the service's own and the directory's owner, whose files are taken. Default none.
	Owners []uint32 `yaml:"owners"`
	// Poll is how often it is looked at. Default 1s.
	Poll duration `yaml:"poll"`
}
