/** The calls of identity providers, by `openid-client` over the gateway's own HTTP client. Its module is loaded at the first one. */
import type { Configuration, CustomFetchOptions, TokenEndpointResponse } from 'openid-client'
import type { Json } from '../../../core/json.ts'
import type { IdentityProvider } from '../../../core/sign-in.ts'
import type { Dial } from '../../../core/world.ts'
import { shortRequest } from '../../../transport/net/short-request.ts'

/** s for one request to an issuer. */
const TIMEOUT = 5
/** s by which the clocks of issuer and gateway may differ. */
const SKEW = 30
/** ms for which a discovery document is used. Keys are read again when one is unknown. */
const KEPT = 3_600_000
/** Asymmetric: with others everyone who can check a token can also make one. */
const ALGORITHMS = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519']

/** The issuer does not answer, or answers with an error of its own. */
export class IssuerUnavailable extends Error {}

/** A refused sign-in. The message is for the log: it may contain the issuer's own words, but no token. */
export class SignInRefused extends Error {
  /** The OAuth error code of the issuer; null: its answer is not valid. */
  readonly code: string | null
  constructor(message: string, code: string | null) {
    super(message)
    this.code = code
  }
}

export type Claims = { readonly [name: string]: Json | undefined }

/** What an issuer has stated. `idToken` null: a refresh gave none. */
export type IssuerAnswer = {
  readonly claims: Claims | null
  readonly idToken: string | null
  readonly accessToken: string
  readonly refreshToken: string | null
}

/** The checks that tie an answer to the browser that began. */
export type ExpectedAnswer = { readonly state: string; readonly nonce: string; readonly verifier: string }

type Known = { readonly configuration: Configuration; readonly of: string; readonly at: number }

export class IssuerCalls {
  readonly #dial: Dial
  readonly #now: () => number
  readonly #known = new Map<string, Known>()

  /** `now`: ms since 1970. */
  constructor(dial: Dial, now: () => number) {
    this.#dial = dial
    this.#now = now
  }

  /** The address to which a browser is sent. */
  async authorizationUrl(
    provider: IdentityProvider,
    redirectUri: string,
    { state, nonce, verifier }: ExpectedAnswer,
  ): Promise<string> {
    const client = await import('openid-client')
    const configuration = await this.#configurationOf(provider)
    return client.buildAuthorizationUrl(configuration, {
      ...provider.parameters,
      redirect_uri: redirectUri,
      scope: provider.scopes.join(' '),
      code_challenge: await client.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
      state,
      nonce,
    }).href
  }

  /** Exchanges the code in the address to which the browser returned, and checks the ID token. Throws one of the errors above. */
  async exchange(provider: IdentityProvider, returned: URL, expected: ExpectedAnswer): Promise<IssuerAnswer> {
    const client = await import('openid-client')
    const configuration = await this.#configurationOf(provider)
    const tokens = await answered(
      client.authorizationCodeGrant(configuration, returned, {
        expectedState: expected.state,
        expectedNonce: expected.nonce,
        pkceCodeVerifier: expected.verifier,
        idTokenExpected: true,
      }),
    )
    return answerOf(tokens, provider)
  }

  async refresh(provider: IdentityProvider, refreshToken: string): Promise<IssuerAnswer> {
    const client = await import('openid-client')
    const configuration = await this.#configurationOf(provider)
    return answerOf(await answered(client.refreshTokenGrant(configuration, refreshToken)), provider)
  }

  /** The claims of userinfo; null: the issuer has no such endpoint. */
  async userInfo(provider: IdentityProvider, accessToken: string, subject: string): Promise<Claims | null> {
    const client = await import('openid-client')
    const configuration = await this.#configurationOf(provider)
    if (configuration.serverMetadata().userinfo_endpoint === undefined) return null
    return answered(client.fetchUserInfo(configuration, accessToken, subject))
  }

  /** The address at which a browser ends its session at the issuer; null: it has none. */
  async endSessionUrl(provider: IdentityProvider, idToken: string | null, returnTo: string): Promise<string | null> {
    const client = await import('openid-client')
    const configuration = await this.#configurationOf(provider)
    if (configuration.serverMetadata().end_session_endpoint === undefined) return null
    return client.buildEndSessionUrl(configuration, {
      post_logout_redirect_uri: returnTo,
      ...(idToken !== null && { id_token_hint: idToken }),
    }).href
  }

  /** The claims of a logout token (OpenID Connect Back-Channel Logout 1.0, section 2.6). */
  async logoutClaims(provider: IdentityProvider, token: string): Promise<Claims> {
    const { createRemoteJWKSet, customFetch, jwtVerify } = await import('jose')
    const { issuer, jwks_uri } = (await this.#configurationOf(provider)).serverMetadata()
    if (jwks_uri === undefined) throw new SignInRefused('the issuer has no keys', null)
    const keys = createRemoteJWKSet(new URL(jwks_uri), {
      timeoutDuration: TIMEOUT * 1_000,
      [customFetch]: (url: string, options: { readonly method: string; readonly signal: AbortSignal }) =>
        this.#fetch(url, { method: options.method, signal: options.signal }),
    })
    const { payload } = await answered(
      jwtVerify<Claims>(token, keys, {
        issuer,
        audience: provider.clientId,
        algorithms: ALGORITHMS,
        currentDate: new Date(this.#now()),
        clockTolerance: SKEW,
        maxTokenAge: 300,
        requiredClaims: ['iat', 'jti', 'events'],
      }),
    )
    return payload
  }

  async #configurationOf(provider: IdentityProvider): Promise<Configuration> {
    const of = JSON.stringify([provider, provider.clientSecret?.reveal()])
    const known = this.#known.get(provider.name)
    if (known?.of === of && this.#now() - known.at < KEPT) return known.configuration
    const client = await import('openid-client')
    const configuration = await this.#discover(client, provider)
    this.#known.set(provider.name, { configuration, of, at: this.#now() })
    return configuration
  }

  /**
   * Reads the discovery document. Some issuers have a slash at the end and some have none (Authentik always has one), and tokens must
   * state the issuer exactly as the document does: if the document has the other form, that is the issuer.
   */
  async #discover(client: OpenidClient, provider: IdentityProvider): Promise<Configuration> {
    const { issuer } = provider
    try {
      return await this.#discoverAt(client, provider, issuer)
    } catch (error) {
      if (!(error instanceof SignInRefused)) throw error
      const other = issuer.endsWith('/') ? issuer.slice(0, -1) : `${issuer}/`
      return await this.#discoverAt(client, provider, other).catch(() => {
        throw error
      })
    }
  }

  #discoverAt(
    client: OpenidClient,
    { clientId, clientSecret }: IdentityProvider,
    issuer: string,
  ): Promise<Configuration> {
    const server = new URL(issuer)
    return answered(
      client.discovery(
        server,
        clientId,
        { [client.clockTolerance]: SKEW },
        authenticationOf(client, clientSecret?.reveal() ?? null),
        {
          [client.customFetch]: (url: string, options: CustomFetchOptions) => this.#fetch(url, options),
          timeout: TIMEOUT,
          execute: [
            client.enableNonRepudiationChecks,
            // The configuration admits http on this machine only.
            ...(server.protocol === 'http:' ? [client.allowInsecureRequests] : []),
          ],
        },
      ),
    )
  }

  /** A request to an issuer. Redirects are not followed. */
  async #fetch(url: string, options: Pick<CustomFetchOptions, 'method' | 'signal'> & Partial<CustomFetchOptions>) {
    const { method, body, headers, signal = AbortSignal.timeout(TIMEOUT * 1_000) } = options
    const call = {
      method: method === 'POST' ? 'POST' : 'GET',
      url,
      headers: { 'user-agent': 'headgate', ...Object.fromEntries(new Headers(headers)) },
      ...(body !== undefined && body !== null && { body: String(body) }),
      connectTimeout: TIMEOUT * 1_000,
      once: true,
    } as const
    const sent = await shortRequest(this.#dial, call, signal)
    if (!sent.ok) {
      const { kind, message } = sent.failure
      throw new IssuerUnavailable(kind === 'timeout' ? `no answer within ${TIMEOUT} s` : message)
    }
    const { status, headers: received, body: content } = sent.value
    if (status >= 500 || status === 429) throw new IssuerUnavailable(`status ${status}`)
    if (content === null) throw new SignInRefused('the answer of the issuer is larger than 256 KiB', null)
    const type = received('content-type')
    const answer = { status, headers: type === undefined ? {} : { 'content-type': type } }
    return new Response(content.length === 0 ? null : new Uint8Array(content), answer)
  }
}

type OpenidClient = typeof import('openid-client')

/** Basic is the default of OAuth 2.0; an issuer that does not list it takes the secret in the body. */
const authenticationOf = (client: OpenidClient, secret: string | null) =>
  secret === null
    ? client.None()
    : (...[server, of, body, headers]: Parameters<ReturnType<OpenidClient['ClientSecretBasic']>>) => {
        const methods = server.token_endpoint_auth_methods_supported
        const isBasic = methods === undefined || methods.includes('client_secret_basic')
        const authenticate = isBasic ? client.ClientSecretBasic(secret) : client.ClientSecretPost(secret)
        return authenticate(server, of, body, headers)
      }

type Tokens = TokenEndpointResponse & { readonly claims: () => Claims | undefined }

const answerOf = (tokens: Tokens, { clientId }: IdentityProvider): IssuerAnswer => {
  const claims = tokens.claims() ?? null
  // OpenID Connect Core 1.0, section 3.1.3.7; the library compares it only where there are several audiences.
  if (claims?.azp !== undefined && claims.azp !== clientId)
    throw new SignInRefused('the ID token was issued to another client', null)
  return {
    claims,
    idToken: tokens.id_token ?? null,
    accessToken: tokens.access_token,
    refreshToken: tokens.refresh_token ?? null,
  }
}

/** Converts the errors of the libraries. */
const answered = async <T>(call: Promise<T>): Promise<T> => {
  try {
    return await call
  } catch (error) {
    const known = knownCause(error)
    if (known) throw known
    const code = error instanceof Error && 'error' in error && typeof error.error === 'string' ? error.error : null
    throw new SignInRefused(code ?? reasonOf(error), code)
  }
}

const knownCause = (error: unknown): Error | null => {
  for (let one = error, depth = 0; one instanceof Error && depth < 5; one = one.cause, depth++)
    if (one instanceof IssuerUnavailable || one instanceof SignInRefused) return one
  return null
}

/** Messages of the libraries name what is wrong, and contain neither tokens nor claims. */
const reasonOf = (error: unknown): string => {
  if (!(error instanceof Error)) return 'unknown error'
  const { cause } = error
  return cause instanceof Error && cause.message !== error.message
    ? `${error.message}: ${cause.message}`
    : error.message
}
