// An OpenID provider with a page to log in, for one client. It knows no passwords: the name is the user's only group.
import { readFileSync } from 'node:fs'
import { createServer } from 'node:https'
import Provider from 'oidc-provider'

const [cert, key, redirect] = process.argv.slice(2)
const server = createServer({ cert: readFileSync(cert), key: readFileSync(key) })
server.listen(0, '127.0.0.1', () => {
  const provider = new Provider(`https://127.0.0.1:${server.address().port}`, {
    clients: [{ client_id: 'console', client_secret: 'the-secret-of-the-console', redirect_uris: [redirect] }],
    claims: { openid: ['sub', 'groups'] },
    conformIdTokenClaims: false,
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, groups: [id] }) }),
    pkce: { required: () => true },
    async loadExistingGrant (ctx) {
      const { client, session } = ctx.oidc
      const grant = new provider.Grant({ clientId: client.clientId, accountId: session.accountId })
      grant.addOIDCScope('openid')
      await grant.save()
      return grant
    },
  })
  server.on('request', provider.callback())
  console.log(`listening ${server.address().port}`)
})
