/** An issuer of signed tokens on this machine: discovery, key set, and any token that a test wants. */
import { createSign, generateKeyPairSync, type KeyObject, randomUUID, sign } from 'node:crypto'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'

type Algorithm = 'RS256' | 'PS256' | 'ES256' | 'EdDSA'

export type IssuerKey = {
  readonly kid: string
  readonly algorithm: Algorithm
  readonly privateKey: KeyObject
  readonly publicKey: KeyObject
}

/** A new pair of keys. RSA keys take 50 ms, the others less than one. */
export const issuerKey = (algorithm: Algorithm = 'ES256', kid: string = randomUUID()): IssuerKey => {
  const pair =
    algorithm === 'ES256'
      ? generateKeyPairSync('ec', { namedCurve: 'P-256' })
      : algorithm === 'EdDSA'
        ? generateKeyPairSync('ed25519')
        : generateKeyPairSync('rsa', { modulusLength: 2_048 })
  return { kid, algorithm, ...pair }
}

/** The public form, as in a key set. */
export const jwkOf = ({ kid, algorithm, publicKey }: IssuerKey): Record<string, unknown> => ({
  ...publicKey.export({ format: 'jwk' }),
  kid,
  use: 'sig',
  alg: algorithm,
})

const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')

/** The signature of a text with a key. */
export const signatureOf = (text: string, { algorithm, privateKey }: IssuerKey): string => {
  if (algorithm === 'EdDSA') return sign(null, Buffer.from(text), privateKey).toString('base64url')
  if (algorithm === 'ES256')
    return sign('sha256', Buffer.from(text), { key: privateKey, dsaEncoding: 'ieee-p1363' }).toString('base64url')
  if (algorithm === 'PS256')
    return sign('sha256', Buffer.from(text), { key: privateKey, padding: 6, saltLength: 32 }).toString('base64url')
  return createSign('sha256').update(text).sign(privateKey).toString('base64url')
}

/** A token with these claims. `header` replaces members of the usual one; undefined ones are left out. */
export const signToken = (key: IssuerKey, claims: object, header: object = {}): string => {
  const text = `${part({ alg: key.algorithm, typ: 'JWT', kid: key.kid, ...header })}.${part(claims)}`
  return `${text}.${signatureOf(text, key)}`
}

export type Issuer = AsyncDisposable & {
  readonly url: string
  /** Those of the key set; the last one signs. */
  keys: IssuerKey[]
  /** Requests for the key set. */
  fetches: number
  /** Accepts connections, and never answers. */
  frozen: boolean
  /** Headers of the last request for the key set. */
  asked: NodeJS.Dict<string | string[]>
  /** Replaces members of the discovery document. */
  discovery: object
  /** Signs claims, with usual ones for what is absent. */
  token(claims?: object, header?: object): string
  close(): Promise<void>
}

/** Starts an issuer. `port` 0: any. `path`: of its address. */
export const startIssuer = async ({ keys = [issuerKey()], port = 0, path = '' } = {}): Promise<Issuer> => {
  const server: Server = createServer((request, response) => {
    if (issuer.frozen) return
    response.setHeader('content-type', 'application/json')
    if (request.url === `${path}/.well-known/openid-configuration`)
      return void response.end(
        JSON.stringify({ issuer: issuer.url, jwks_uri: `${issuer.url}/jwks`, ...issuer.discovery }),
      )
    if (request.url !== `${path}/jwks`) return void response.writeHead(404).end('{}')
    issuer.fetches++
    issuer.asked = request.headers
    response.end(JSON.stringify({ keys: issuer.keys.map(jwkOf) }))
  })
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  const issuer: Issuer = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`,
    keys,
    fetches: 0,
    frozen: false,
    asked: {},
    discovery: {},
    token(claims = {}, header = {}) {
      const key = this.keys.at(-1)
      if (!key) throw new Error('the issuer has no key')
      const now = Math.floor(Date.now() / 1_000)
      return signToken(
        key,
        { iss: this.url, aud: 'headgate', sub: 'alice', iat: now, exp: now + 600, ...claims },
        header,
      )
    },
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
    [Symbol.asyncDispose]: () => issuer.close(),
  }
  return issuer
}
