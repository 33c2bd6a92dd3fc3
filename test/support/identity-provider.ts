/** A real OpenID provider (`oidc-provider`) on 127.0.0.1, at which the chosen person is signed in without a form, and a browser without a window. */
/// <reference path="./oidc-provider.d.ts" />
import assert from 'node:assert/strict'
import { createServer, get, type IncomingHttpHeaders, type Server } from 'node:http'
import { Provider } from 'oidc-provider'

/** A person at the provider. */
export type TestPerson = {
  readonly email?: string
  readonly email_verified?: boolean
  readonly name?: string
  readonly groups?: readonly string[]
}

export type IdentityProviderFixture = {
  readonly issuer: string
  readonly clientId: string
  readonly clientSecret: string
  /** The people by subject. Changes count from the next token on. */
  readonly people: Map<string, TestPerson>
  /** The subject that signs in. */
  signedIn: string
  /** Stops listening. `start` makes it answer again at the same address. */
  stop(): Promise<void>
  start(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

const CLIENT = { id: 'headgate', secret: 'client-secret-canary-0123456789' }

/** `publicUrl`: of the gateway. `port`: of the provider. */
export const startIdentityProvider = async (publicUrl: string, port: number): Promise<IdentityProviderFixture> => {
  const issuer = `http://127.0.0.1:${port}`
  const people = new Map<string, TestPerson>()
  const claimsOf = (subject: string) => ({ sub: subject, ...people.get(subject) })
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: CLIENT.id,
        client_secret: CLIENT.secret,
        redirect_uris: [`${publicUrl}/oauth/callback`],
        post_logout_redirect_uris: [`${publicUrl}/dashboard/`],
        backchannel_logout_uri: `${publicUrl}/oauth/backchannel-logout`,
        backchannel_logout_session_required: true,
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
      },
    ],
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'], groups: ['groups'] },
    conformIdTokenClaims: false,
    cookies: { keys: ['test'] },
    pkce: { required: () => true },
    issueRefreshToken: () => true,
    rotateRefreshToken: true,
    features: {
      devInteractions: { enabled: false },
      backchannelLogout: { enabled: true },
      rpInitiatedLogout: { enabled: true },
    },
    interactions: { url: (_: unknown, { uid }: { readonly uid: string }) => `/interaction/${uid}` },
    findAccount: (_: unknown, subject: string) =>
      people.has(subject) ? { accountId: subject, claims: () => claimsOf(subject) } : undefined,
  })
  const serve = provider.callback()
  const fixture = { signedIn: '' }
  const interact: typeof serve = async (request, response) => {
    const { prompt, params, session } = await provider.interactionDetails(request, response)
    let result: object = { login: { accountId: fixture.signedIn } }
    if (prompt.name === 'consent') {
      const grant = new provider.Grant({ accountId: session?.accountId ?? '', clientId: params.client_id ?? '' })
      grant.addOIDCScope(params.scope ?? '')
      result = { consent: { grantId: await grant.save() } }
    }
    response.writeHead(303, { location: await provider.interactionResult(request, response, result) })
    response.end()
  }
  let server: Server | undefined
  const start = () =>
    new Promise<void>((resolve) => {
      server = createServer((request, response) => {
        const isInteraction = request.url?.startsWith('/interaction/')
        void (isInteraction ? interact(request, response) : serve(request, response))
      }).listen(port, '127.0.0.1', () => resolve())
    })
  const stop = async () => {
    server?.closeAllConnections()
    await new Promise<void>((resolve) => (server ? server.close(() => resolve()) : resolve()))
    server = undefined
  }
  await start()
  return Object.assign(fixture, {
    issuer,
    clientId: CLIENT.id,
    clientSecret: CLIENT.secret,
    people,
    start,
    stop,
    [Symbol.asyncDispose]: stop,
  })
}

/** What a browser received at the end of its redirects. */
export type Page = {
  readonly url: string
  readonly status: number
  readonly text: string
  readonly headers: IncomingHttpHeaders
}

/** The headers of a navigation from another site. The `fetch` of Node replaces them. */
export const NAVIGATION = {
  'sec-fetch-site': 'cross-site',
  'sec-fetch-mode': 'navigate',
  'sec-fetch-dest': 'document',
} as const

/** Sends a GET without following redirects. */
export const navigate = (url: string, headers: Readonly<Record<string, string>>): Promise<Page> =>
  new Promise((resolve, reject) => {
    get(url, { headers, agent: false }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (part: string) => {
        text += part
      })
      response.on('end', () => resolve({ url, status: response.statusCode ?? 0, text, headers: response.headers }))
    }).on('error', reject)
  })

/** Follows redirects and keeps cookies by origin, path and name, as a browser does. */
export class TestBrowser {
  /** By origin and name. */
  readonly cookies = new Map<string, { readonly value: string; readonly path: string }>()

  /** `until`: the address of a redirect that is not followed. */
  async open(address: string, { until }: { readonly until?: RegExp } = {}): Promise<Page> {
    let url = address
    let site: string = 'none'
    for (let hops = 0; hops < 12; hops++) {
      const page = await navigate(url, { ...NAVIGATION, cookie: this.header(url), 'sec-fetch-site': site })
      this.keep(url, page.headers['set-cookie'] ?? [])
      const { location } = page.headers
      if (location === undefined) return page
      url = new URL(location, url).href
      if (until?.test(url)) return { ...page, url }
      if (new URL(url).origin !== new URL(address).origin) site = 'cross-site'
    }
    assert.fail(`too many redirects: ${url}`)
  }

  header(url: string): string {
    const { origin, pathname } = new URL(url)
    return [...this.cookies]
      .filter(([key, { path }]) => key.startsWith(`${origin} `) && pathname.startsWith(path))
      .map(([key, { value }]) => `${key.split(' ')[1]}=${value}`)
      .join('; ')
  }

  keep(url: string, lines: readonly string[]): void {
    const { origin, pathname } = new URL(url)
    for (const line of lines) {
      const [pair = '', ...attributes] = line.split(/; */)
      const [name = '', value = ''] = pair.split(/=(.*)/s)
      const path = attributes.find((one) => /^path=/i.test(one))?.slice(5) ?? pathname.replace(/\/[^/]*$/, '')
      const isGone = value === '' || attributes.some((one) => /^max-age=0$/i.test(one))
      if (isGone) this.cookies.delete(`${origin} ${name}`)
      else this.cookies.set(`${origin} ${name}`, { value, path })
    }
  }
}
