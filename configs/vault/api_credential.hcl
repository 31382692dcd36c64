# What the sidecar may read in Vault to put it into calls: the credentials that its rules name, one path for each.
path "kv/data/github" { capabilities = ["read"] }
path "kv/data/slack"  { capabilities = ["read"] }

# It may sign with the keys of GitHub Apps (githubApp.vaultKey).
path "transit/sign/github-app/sha2-256" { capabilities = ["update"] }

# Its token may look at itself, renew itself and give itself back; it comes without Vault's default policy.
path "auth/token/lookup-self" { capabilities = ["read"] }
path "auth/token/renew-self"  { capabilities = ["update"] }
path "auth/token/revoke-self" { capabilities = ["update"] }
path "sys/capabilities-self"  { capabilities = ["update"] }

# A temporary secret. The sidecar renews its lease, and gives it back if an API refuses the secret, and at the end if the
# token is not its own.
path "database/creds/reports"                     { capabilities = ["read"] }
path "sys/leases/renew/database/creds/reports/*"  { capabilities = ["update"] }
path "sys/leases/revoke/database/creds/reports/*" { capabilities = ["update"] }

# A client certificate with its key, from the PKI engine.
path "pki/issue/mediator" { capabilities = ["update"] }
