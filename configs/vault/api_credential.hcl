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
