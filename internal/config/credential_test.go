package config

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/test/check"
)

// TestWrongCredentials has credentials that cannot work. Each is found at its line and column, and its key (* is the
// credential's), with what is allowed.
func TestWrongCredentials(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"token": "a-token-of-the-api", "pair": "alice:open-sesame",
		"short": "seven77", "lines": "two\nlines-of-text", "space": "a token with spaces", "empty": "",
		"aws":      "[default]\naws_access_key_id = AKID\naws_secret_access_key = a-secret-key\n",
		"aws-more": "[a]\naws_access_key_id = AKID\naws_secret_access_key = a-secret-key\n[b]\n",
		"aws-bad":  "[default]\naws_access_key_id = AK ID\naws_secret_access_key = a-secret-key\n",
		"google":   `{"type": "authorized_user"}`, "rsa": rsaKey(t, 2048), "rsa-short": rsaKey(t, 1024)} {
		check.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	const github = `githubApp: {app: Iv23, installation: 7, repositories: [site]`
	const oauth = `oauth: {tokenURL: "https://login.example.com/token", clientID: m`
	for _, tt := range []struct{ credential, want string }{
		{`{file: token}`, ""},
		{`{basic: {}, file: pair}`, ""},
		{`{basic: {user: alice}, file: token}`, ""},
		{`{query: key, file: space}`, ""},
		{`{cookie: session, file: token}`, ""},
		{`{aws: {service: s3, regions: [eu-central-1]}, file: aws}`, ""},
		{`{aws: {service: s3, regions: ["*"]}, file: aws}`, ""},
		{`{` + oauth + `, clientSecretFile: token}}`, ""},
		{`{` + github + `, permissions: {issues: write}, keyFile: rsa}}`, ""},
		{`{` + github + `, keyFile: rsa}, basic: {user: x-access-token}}`, ""},

		// Sources.
		{`{prefix: "Bearer "}`, `17: *: needs exactly one of file, vault, oauth, google, githubApp`},
		{`{file: token, vault: {path: kv/data/a, field: token}}`,
			`17: *: needs exactly one of file, vault, oauth, google, githubApp | 38: *.vault: needs custody.type: vault`},
		{`{file: absent}`, `24: *.file: read secret: open absent: no such file or directory`},
		{`{file: empty}`, `24: *.file: the secret in empty has fewer than 1 bytes`},
		{`{file: short}`,
			`24: *.file: short: the secret has fewer than 8 bytes, too few to tell it from other text in an answer`},
		{`{vault: {path: kv/data/a}}`, `25: *.vault.field: is required | 25: *.vault: needs custody.type: vault`},
		{`{vault: {path: kv/data/a, field: token, version: 2}}`, `25: *.vault: needs custody.type: vault`},
		{`{vault: {path: kv/data/a, field: token, version: -1}}`,
			`66: *.vault.version: must be a whole number in decimal digits, from 0 to 9223372036854775807, not "-1"`},
		{`{vault: {path: kv/a, field: token, version: 2}}`,
			`25: *.vault: needs custody.type: vault | 61: *.vault.version: needs version 2 of the KV engine, whose ` +
				`paths have data/ after the mount`},
		{`{vault: {path: database/creds/a, field: token, lease: 1h}}`,
			`64: *.vault.lease: is not known; known here are field, path, version`},
		{`{file: token, basic: {user: alice}, vault: {path: database/creds/a}}`,
			`17: *: needs exactly one of file, vault, oauth, google, githubApp | 60: *.vault.field: is required | 60: ` +
				`*.vault: needs custody.type: vault`},

		// Forms.
		{`{header: X-Key, query: key, file: token}`,
			`40: *.query: a credential goes to one place only, and this one has header`},
		{`{prefix: "Bearer ", cookie: session, file: token}`,
			`45: *.cookie: a credential goes to one place only, and this one has header`},
		{`{header: Host, file: token}`,
			`26: *.header: the header Host has a meaning of its own, so it cannot carry a credential`},
		{`{header: "X Key", file: token}`, `26: *.header: "X Key" is not the name of a header`},
		{`{file: lines}`, `24: *.file: lines: it has a character that no header can carry, such as a line end`},
		{`{query: "a b", file: token}`,
			`25: *.query: "a b" cannot carry a credential: use letters, digits and -._~, and no name that some ` +
				`servers take the method from`},
		{`{query: _method, file: token}`,
			`25: *.query: "_method" cannot carry a credential: use letters, digits and -._~, and no name that some ` +
				`servers take the method from`},
		{`{query: key, basicSecret: user, file: token}`,
			`43: *.basicSecret: has no meaning with query, which is no Basic credential`},
		{`{cookie: "a;b", file: token}`,
			"26: *.cookie: \"a;b\" is not the name of a cookie: letters, digits and !#$%&'*+-.^_`|~"},
		{`{cookie: session, file: space}`,
			`41: *.file: space: it has a character that no cookie can carry, such as a space or a semicolon`},
		{`{basic: {user: "a:b"}, file: token}`,
			`25: *.basic: a user must not have a colon or a control character (RFC 7617)`},
		{`{basic: {}, file: token}`, `35: *.file: token: it has no user: set basic.user, or write user:password`},
		{`{basic: {name: alice}, file: token}`, `26: *.basic.name: is not known; known here are user`},

		// AWS.
		{`{aws: {service: s3}, file: aws}`, `23: *.aws.regions: is required`},
		{`{aws: {service: S3, regions: [eu-central-1]}, file: aws}`,
			`23: *.aws: "S3" is not a service or region such as s3 or eu-central-1: lower case, digits and hyphens`},
		{`{aws: {service: s3, regions: [Frankfurt]}, file: aws}`,
			`23: *.aws: "Frankfurt" is not a service or region such as s3 or eu-central-1: lower case, digits and ` +
				`hyphens`},
		{`{aws: {service: s3, region: eu-central-1}, file: aws}`,
			`37: *.aws.region: is not known; did you mean regions?`},
		{`{aws: {service: s3, regions: [eu-central-1]}, file: token}`,
			`69: *.file: token: not a shared credentials file: its lines must be a profile, aws_access_key_id, ` +
				`aws_secret_access_key and aws_session_token, each once`},
		{`{aws: {service: s3, regions: [eu-central-1]}, file: aws-more}`,
			`69: *.file: aws-more: not a shared credentials file with exactly one profile, which must have aws_access_key_id ` +
				`and aws_secret_access_key`},
		{`{aws: {service: s3, regions: [eu-central-1]}, file: aws-bad}`,
			`69: *.file: aws-bad: its access key id is missing, or has a space, comma, slash or equals sign`},
		{`{aws: {service: s3, regions: [eu-central-1]}, vault: {path: aws/creds/a, field: secret_key}}`,
			`70: *.vault: needs custody.type: vault | 97: *.vault.field: has no meaning with aws, which takes ` +
				`access_key, secret_key and security_token`},

		// Tokens.
		{`{oauth: {clientID: m, clientSecretFile: token}}`, `25: *.oauth.tokenURL: is required`},
		{`{oauth: {tokenURL: "http://login.example.com/token", clientID: m, clientSecretFile: token}}`,
			`36: *.oauth.tokenURL: must be an https URL without a fragment, such as ` +
				`https://login.example.com/token`},
		{`{oauth: {tokenURL: "https://login.example.com/token", clientSecretFile: token}}`,
			`25: *.oauth.clientID: is required`},
		{`{` + oauth + `}}`,
			`25: *.oauth: needs clientSecretFile, refreshTokenFile or subjectTokenFile: a client identifier alone ` +
				`proves nothing`},
		{`{` + oauth + `, clientSecretFile: absent}}`,
			`102: *.oauth.clientSecretFile: read secret: open absent: no such file or directory`},
		{`{` + oauth + `, clientSecret: text}}`,
			`84: *.oauth.clientSecret: is not known; did you mean clientSecretFile?`},
		{`{` + oauth + `, clientSecretFile: token, clientAuth: body}}`,
			`121: *.oauth.clientAuth: "body" is none of basic, post`},
		{`{` + oauth + `, refreshTokenFile: token, subjectTokenFile: token}}`,
			`127: *.oauth.subjectTokenFile: has no meaning with refreshTokenFile: set one of them`},
		{`{` + oauth + `, subjectTokenFile: token, subjectTokenType: saml}}`,
			`127: *.oauth.subjectTokenType: "saml" is none of access_token, id_token, jwt`},
		{`{` + oauth + `, clientSecretFile: token, identityProvider: {tokenURL: "https://idp.example/", clientID: m}}}`,
			`127: *.oauth.identityProvider: needs subjectTokenFile, the token that it exchanges, and audience, for ` +
				`whom`},
		{`{` + oauth + `, clientSecretFile: token}, aws: {service: s3, regions: [eu-central-1]}}`,
			`115: *.aws: needs more than a token: a file or vault`},
		{`{` + github + `}}`, `29: *.githubApp: needs exactly one of keyFile, vaultKey`},
		{`{` + github + `, keyFile: rsa, vaultKey: app}}`,
			`29: *.githubApp: needs exactly one of keyFile, vaultKey | 104: *.githubApp.vaultKey: needs custody.type: vault`},
		{`{` + github + `, vaultKey: ../app}}`,
			`90: *.githubApp.vaultKey: "../app" is not the name of a key in Vault | 90: *.githubApp.vaultKey: needs ` +
				`custody.type: vault`},
		{`{githubApp: {keyFile: rsa}}`,
			`29: *.githubApp.app: is required | 29: *.githubApp.installation: is required | 29: ` +
				`*.githubApp.repositories: is required`},
		{`{githubApp: {app: Iv23, installation: site, repositories: [site], keyFile: rsa}}`,
			`55: *.githubApp.installation: must be a whole number in decimal digits, from 0 to 18446744073709551615, ` +
				`not "site"`},
		{`{githubApp: {app: Iv23, installation: -7, repositories: [site], keyFile: rsa}}`,
			`55: *.githubApp.installation: must be a whole number in decimal digits, from 0 to 18446744073709551615, ` +
				`not "-7"`},
		{`{githubApp: {app: Iv23, installation: 7, repositories: [acme/site], keyFile: rsa}}`,
			`73: *.githubApp.repositories[0]: "acme/site" is not a repository's name without its owner`},
		{`{` + github + `, permissions: {issues: owner}, keyFile: rsa}}`,
			`102: *.githubApp.permissions.issues: "owner" is none of read, write, admin`},
		{`{` + github + `, permissions: {Issues: write}, keyFile: rsa}}`,
			`102: *.githubApp.permissions.Issues: no permission of GitHub has this name`},
		{`{` + github + `, permissions: [issues], keyFile: rsa}}`,
			`93: *.githubApp.permissions: must be keys with values, not a list`},
		{`{` + github + `, keyFile: rsa-short}}`,
			`89: *.githubApp.keyFile: rsa-short: its private key is not an RSA key of at least 2048 bits`},
		{`{` + github + `, keyFile: token}}`,
			`89: *.githubApp.keyFile: token: its private key is not in PEM`},
		{`{` + github + `, keyFile: rsa, apiURL: "http://github.example.com"}}`,
			`102: *.githubApp.apiURL: must be an https URL without a query, such as https://github.example.com/api/v3`},
		{`{` + github + `, keyFile: rsa, apiURL: "https://u:p@github.example.com"}}`,
			`102: *.githubApp.apiURL: must not hold a user or a password: put them into a file`},
		{`{` + github + `, keyFile: rsa}, basic: {}}`,
			`102: *.basic: needs more than a token: a file or vault`},
		{`{googel: {keyFile: google}}`, `18: *.googel: is not known; did you mean google?`},
		{`{google: {keyFile: google, scopes: [a]}}`,
			`36: *.google.keyFile: google: not a service account's key (JSON with type, client_email and private_key)`},
		{`{google: {keyFile: google}}`,
			`26: *.google.scopes: is required | 36: *.google.keyFile: google: not a service account's key (JSON with ` +
				`type, client_email and private_key)`},
		{`{google: {keyFile: token, scopes: [a], tokenURL: "https://u@googleapis.com/token"}}`,
			`36: *.google.keyFile: token: not a service account's key (JSON with type, client_email and private_key) ` +
				`| 66: *.google.tokenURL: must not hold a user or a password: put them into a file`},
	} {
		if got := mistakes(t, dir, "credential", tt.credential); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.credential, got, tt.want)
		}
	}
}

func rsaKey(t *testing.T, bits int) string {
	key, err := rsa.GenerateKey(rand.Reader, bits)
	check.Must(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
}

// TestAppKeyInVault refuses a signing key of the deployment as an App's key.
func TestAppKeyInVault(t *testing.T) {
	for key, want := range map[string]string{"github-app": "", "request-proof-key": "credential.githubApp.vaultKey: " +
		"request-proof-key is in custody.vault.keys: the App needs a key of its own"} {
		file := strings.NewReplacer("custody: {type: memory}", `custody:
  type: vault
  vault: {address: "https://vault.test:1", keys: [request-proof-key], auth: {tokenFile: "{role}.token"}}`,
			"    action: create_post", `    action: create_post
    credential: {githubApp: {app: Iv23, installation: 7, repositories: [site], vaultKey: `+key+"}}").
			Replace(correctSidecar)
		if _, err := Load[Sidecar](write(t, file)); (err == nil) != (want == "") || err != nil &&
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", key, err)
		}
	}
}
