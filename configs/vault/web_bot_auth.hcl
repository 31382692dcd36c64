# What whoever signs requests to APIs may do in Vault: read its own key's public versions, and sign with them.
path "transit/keys/web-bot-auth-key" { capabilities = ["read"] }
path "transit/sign/web-bot-auth-key" { capabilities = ["update"] }

# Its token may look at itself, renew itself and give itself back; it comes without Vault's default policy.
path "auth/token/lookup-self" { capabilities = ["read"] }
path "auth/token/renew-self"  { capabilities = ["update"] }
path "auth/token/revoke-self" { capabilities = ["update"] }
path "sys/capabilities-self"  { capabilities = ["update"] }
