// An OpenID provider that gives tokens to one client. It prints its port and the first refresh token of a user.
import Provider from 'oidc-provider'

const provider = new Provider('http://127.0.0.1', {
  clients: [{
    client_id: 'mediator', client_secret: 'the-secret-of-the-client', redirect_uris: ['https://client.example/'],
    grant_types: ['client_credentials', 'authorization_code', 'refresh_token'],
  }],
  features: { clientCredentials: { enabled: true }, introspection: { enabled: true }, devInteractions: { enabled: false } },
  rotateRefreshToken: true,
  ttl: { AccessToken: 600, ClientCredentials: 600, RefreshToken: 3600, Grant: 3600 },
})
const clientId = 'mediator', accountId = 'alice', scope = 'openid offline_access'
const grant = new provider.Grant({ accountId, clientId })
grant.addOIDCScope(scope)
const grantId = await grant.save()
const client = await provider.Client.find(clientId)
const token = new provider.RefreshToken({ accountId, client, grantId, scope, gty: 'authorization_code' })
const first = await token.save()
const server = provider.listen(0, '127.0.0.1', () => console.log(`listening ${server.address().port} ${first}`))
