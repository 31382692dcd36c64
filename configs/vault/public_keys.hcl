# What the registrar may do in Vault with the processes' keys: read their public versions. It signs with none of them.
path "transit/keys/+" { capabilities = ["read"] }

# Its token may look at itself, renew itself and give itself back; it comes without Vault's default policy.
path "auth/token/lookup-self" { capabilities = ["read"] }
path "auth/token/renew-self"  { capabilities = ["update"] }
path "auth/token/revoke-self" { capabilities = ["update"] }
path "sys/capabilities-self"  { capabilities = ["update"] }
