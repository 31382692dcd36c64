# What the keys' owner may do in Vault: rotate and retire keys, and read their public versions. It signs with none of them.
path "transit/keys/+"        { capabilities = ["read"] }
path "transit/keys/+/rotate" { capabilities = ["update"] }

# Retiring, and rotating by itself, and nothing else of a key's configuration: not whether it can be exported, backed up or deleted.
path "transit/keys/+/config" {
  capabilities       = ["update"]
  allowed_parameters = { "min_decryption_version" = [], "min_encryption_version" = [], "auto_rotate_period" = [] }
}

path "auth/token/lookup-self" { capabilities = ["read"] }
path "auth/token/renew-self"  { capabilities = ["update"] }
path "auth/token/revoke-self" { capabilities = ["update"] }
