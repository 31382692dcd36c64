package tools

// The arguments of the tools, as JSON Schema.
const (
	schemaChallenge = `{"type": "object", "additionalProperties": false, "required": ["pubkey"], "properties": {
		"pubkey": {"type": "string", "description": "Ed25519 public key, PEM (SubjectPublicKeyInfo)"}}}`
	schemaTurn = `{"type": "object", "additionalProperties": false, "required": ["sessionId", "toolCall", "hash"], ` +
		`"properties": {
		"sessionId": {"type": "string"},
		"toolCall": {"type": "string", "description": "the tool that was called"},
		"hash": {"type": "string", "description": "hex SHA-256 of the turn"},
		"input": {"type": "string", "description": "the call's arguments, as JSON text"},
		"output": {"type": "string", "description": "the call's result, as JSON text"},
		"reasoning": {"type": "string", "description": "why, in at least 30 characters, with the canary of the turn ` +
		`before"},
		"timestamp": {"type": "integer", "description": "Unix milliseconds"}}}`
	schemaRegister = `{"type": "object", "additionalProperties": false,
		"required": ["pubkey", "payload", "signature", "challengeNonce", "challengeTrace"], "properties": {
		"pubkey": {"type": "string"},
		"payload": {"type": "string"},
		"signature": {"type": "string", "description": "hex Ed25519 signature of nonce|payload"},
		"challengeNonce": {"type": "string"},
		"challengeTrace": {"type": ["object", "string"], "description": "sessionId, turns, merkleRoot and attestation,` +
		` or their JSON text"},
		"metadata": {"type": "object", "additionalProperties": false, "properties": {
			"name": {"type": "string"}, "description": {"type": "string"}, "version": {"type": "string"},
			"tags": {"type": "array", "items": {"type": "string"}}}},
		"uiManifest": {"type": "object"}}}`
	schemaSearch = `{"type": "object", "additionalProperties": false, "properties": {
		"query": {"type": "string"},
		"sessionId": {"type": "string", "description": "the verification that the call is made for"}}}`
	schemaList = `{"type": "object", "additionalProperties": false, "properties": {
		"sessionId": {"type": "string", "description": "the verification that the call is made for"}}}`
	schemaManifest = `{"type": "object", "additionalProperties": false, "required": ["did"], "properties": {
		"did": {"type": "string"}}}`
)
