/** Programs sign in by the device flow (RFC 8628): they receive a code, which a person confirms in a browser, and then tokens. */
import { hash, randomBytes } from 'node:crypto'
import type { ClaudeSettings } from '../../../core/claude.ts'
import { bad, fail, good, type Outcome } from '../../../core/failure.ts'
import type { ResponseWriter } from '../../../core/http-exchange.ts'
import type { JsonObject } from '../../../core/json.ts'
import type { SignInSettings } from '../../../core/sign-in.ts'
import { addressGroup } from '../../../policy/health/shed.ts'
import { accessClaims, readAccessClaims } from '../../../policy/sign-in/access-claims.ts'
import { ACCESS_LIFE, createUserCode, DEVICE_LIFE, POLL_PAUSE, shownUserCode } from '../../../policy/sign-in/device.ts'
import type {
  ControlError,
  ControlResult,
  LoginPerson,
  PersonLogin,
  RunOperation,
} from '../../../records/store/record-operations.ts'
import { signAccessToken, verifyAccessToken } from '../../access-token.ts'
import { FailedAttempts } from '../../failed-attempts.ts'
import { SIGN_IN_PATHS } from '../../sign-in-paths.ts'
import { keyedDigest } from '../../sso-keys.ts'
import { SESSION_CONTEXT } from '../sessions.ts'
import type { IssuerCalls } from './issuer.ts'
import { recheck } from './recheck.ts'
import { NO_STORE, noteSignIn, type SignInStep } from './steps.ts'

const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code'
/** Requests for a code, and unknown codes and tokens, of an address in a minute. */
const LIMIT = 100
/** Draws of a code that is in use. */
const DRAWS = 5
const MAX_CLIENT = 60

export type ProgramsOptions = {
  /** The Claude Code gateway protocol; null: it is off. */
  readonly claude: () => Pick<ClaudeSettings, 'loginNotice'> | null
  readonly issuers: IssuerCalls
  readonly run: RunOperation
  /** ms since 1970. */
  readonly now: () => number
  readonly report: (problem: { readonly id: string | null; readonly provider: string; readonly reason: string }) => void
}

/** An error of OAuth (RFC 6749, 5.2). */
type OAuthRefusal = { readonly status: number; readonly error: string; readonly text: string }

export class Programs {
  readonly #options: ProgramsOptions
  readonly #begun: FailedAttempts
  readonly #unknown: FailedAttempts

  constructor(options: ProgramsOptions) {
    this.#options = options
    this.#begun = new FailedAttempts(options.now, LIMIT)
    this.#unknown = new FailedAttempts(options.now, LIMIT)
  }

  /** The addresses that programs need (RFC 8414). */
  metadata({ settings: { publicUrl }, reply }: SignInStep): void {
    answer(reply, 200, {
      issuer: publicUrl,
      device_authorization_endpoint: publicUrl + SIGN_IN_PATHS.deviceAuthorization,
      token_endpoint: publicUrl + SIGN_IN_PATHS.token,
      revocation_endpoint: publicUrl + SIGN_IN_PATHS.revoke,
      grant_types_supported: [DEVICE_GRANT, 'refresh_token'],
      response_types_supported: [],
      token_endpoint_auth_methods_supported: ['none'],
      ...(this.#options.claude() && { gateway_protocol_version: 1 }),
    })
  }

  /** Gives a code to a program. */
  async begin(step: SignInStep): Promise<void> {
    const { settings, request, reply } = step
    const network = addressGroup(request.address)
    if (this.#begun.waitFor(network) > 0) return refuse(reply, TOO_MANY)
    this.#begun.add(network)
    const form = await formOf(step)
    if (!form.ok) return request.refuse(form.failure, NO_STORE)
    const client = clientIn(form.value)
    const device = randomBytes(32).toString('base64url')
    const drawn = await this.#createDevice(device, client, request.address)
    if (!drawn.ok) return refuse(reply, drawn.error)
    const page = settings.publicUrl + SIGN_IN_PATHS.device
    const code = shownUserCode(drawn.code)
    const notice = this.#options.claude()?.loginNotice ?? null
    answer(reply, 200, {
      device_code: device,
      user_code: code,
      verification_uri: page,
      verification_uri_complete: `${page}?user_code=${code}`,
      expires_in: DEVICE_LIFE / 1_000,
      interval: POLL_PAUSE / 1_000,
      ...(notice !== null && { login_notice: notice }),
    })
  }

  /** Exchanges a device code or a refresh token for tokens. */
  async exchange(step: SignInStep): Promise<void> {
    const { request, reply } = step
    const network = addressGroup(request.address)
    if (this.#unknown.waitFor(network) > 0) return refuse(reply, TOO_MANY)
    const form = await formOf(step)
    if (!form.ok) return request.refuse(form.failure, NO_STORE)
    const grant = form.value.get('grant_type')
    const isDevice = grant === DEVICE_GRANT
    if (!isDevice && grant !== 'refresh_token') return refuse(reply, UNKNOWN_GRANT)
    const presented = form.value.get(isDevice ? 'device_code' : 'refresh_token') ?? ''
    if (presented === '') return refuse(reply, MISSING)
    const tokens = await (isDevice ? this.#firstTokens(presented) : this.#nextTokens(step, presented))
    if ('error' in tokens) {
      if (tokens.error === 'expired_token' || tokens.error === 'invalid_grant') this.#unknown.add(network)
      return refuse(reply, tokens)
    }
    this.#answerTokens(step, tokens)
  }

  /** Ends a sign-in by its refresh token or an access token. Unknown tokens are no error (RFC 7009, 2.2). */
  async revoke(step: SignInStep): Promise<void> {
    const { settings, request, reply } = step
    const form = await formOf(step)
    if (!form.ok) return request.refuse(form.failure, NO_STORE)
    const token = form.value.get('token') ?? ''
    const signIn = verifyAccessToken(settings.secrets, token)?.sid
    const end = typeof signIn === 'string' ? { id: signIn } : { refresh: digestOf(token) }
    const ended = await this.#run({ do: 'sign_in_end', ...end })
    if (!ended.ok) return refuse(reply, AWAY)
    const { person } = ended.value
    if (typeof person === 'string')
      await noteSignIn(this.#options.run, request, { action: 'logout', object: person, name: person, details: {} })
    answer(reply, 200, {})
  }

  /** The person of an access token, as the store has them now; null: it is not valid, or its sign-in has ended. */
  async personOf({ secrets, publicUrl }: SignInSettings, token: string): Promise<Outcome<LoginPerson | null>> {
    const claims = verifyAccessToken(secrets, token)
    const read = claims && readAccessClaims(claims, publicUrl, this.#options.now())
    if (!read || typeof read === 'string') return good(null)
    const found = await this.#run({ do: 'sign_in_person', id: read.signIn })
    if (!found.ok && found.error.status === 503) return bad(fail('storage', found.error.message, { retryAfter: 2_000 }))
    return good(found.ok ? tokensOf(found.value, '').person : null)
  }

  async #createDevice(
    device: string,
    client: string,
    address: string,
  ): Promise<{ readonly ok: true; readonly code: string } | { readonly ok: false; readonly error: OAuthRefusal }> {
    for (let draw = 0; draw < DRAWS; draw++) {
      const code = createUserCode(randomBytes)
      const created = await this.#run({ do: 'device_create', digest: digestOf(device), code, client, address })
      if (created.ok) return { ok: true, code }
      if (created.error.status !== 409) break
    }
    return { ok: false, error: AWAY }
  }

  async #firstTokens(device: string): Promise<ProgramTokens | OAuthRefusal> {
    const refresh = randomBytes(32).toString('base64url')
    const polled = await this.#run({ do: 'device_poll', digest: digestOf(device), refresh: digestOf(refresh) })
    return polled.ok ? tokensOf(polled.value, refresh) : deviceRefusal(polled.error)
  }

  async #nextTokens(step: SignInStep, refresh: string): Promise<ProgramTokens | OAuthRefusal> {
    const { settings, request } = step
    const digest = digestOf(refresh)
    const used = await this.#run({ do: 'sign_in_use', refresh: digest })
    if (!used.ok) {
      if (used.error.code === 'replayed')
        this.#options.report({
          id: request.id,
          provider: '',
          reason: 'a refresh token was used again: its sign-in has ended',
        })
      return refreshRefusal(used.error)
    }
    const { id, person, login, isCheckDue } = used.value as unknown as UsedSignIn
    const known = settings.providers.some(({ name }) => name === person.provider)
    const checked = isCheckDue || !known ? await this.#check(step, { id, person, login }) : null
    if (checked && 'error' in checked) return checked
    const next = settings.secrets.map((secret) => keyedDigest(secret, 'refresh', refresh).toString('base64url'))
    const rotated = await this.#run({
      do: 'sign_in_rotate',
      refresh: digest,
      next: next.map(digestOf),
      person: checked?.person ?? null,
      login: checked?.login ?? null,
    })
    if (!rotated.ok) return refreshRefusal(rotated.error)
    return tokensOf(rotated.value, next[Number(rotated.value.next)] ?? '')
  }

  /** Asks the issuer. A sign-in that it refuses ends; while it is away, the program keeps its token and tries again. */
  async #check({ settings, request }: SignInStep, { id, person, login }: Omit<UsedSignIn, 'isCheckDue'>) {
    const { issuers, now, report } = this.#options
    const checked = await recheck(issuers, settings, { person, login }, now)
    if (checked.result === 'kept') return checked
    report({ id: request.id, provider: person.provider, reason: `the sign-in of a program: ${checked.reason}` })
    if (checked.result === 'ended') {
      await this.#run({ do: 'sign_in_end', id })
      return ENDED
    }
    await this.#run({ do: 'sign_in_unchecked', id })
    return ISSUER_AWAY
  }

  #answerTokens({ settings, reply }: SignInStep, { id, person, refresh }: ProgramTokens): void {
    const of = { ...person, id: person.id, signIn: id }
    answer(reply, 200, {
      access_token: signAccessToken(settings.secrets, accessClaims(settings, of, this.#options.now())),
      token_type: 'Bearer',
      expires_in: ACCESS_LIFE / 1_000,
      refresh_token: refresh,
      ...(person.email !== null && { email: person.email }),
    })
  }

  #run(operation: Parameters<RunOperation>[0]): Promise<ControlResult> {
    return this.#options.run(operation, SESSION_CONTEXT)
  }
}

type ProgramTokens = { readonly id: string; readonly person: LoginPerson; readonly refresh: string }
type UsedSignIn = {
  readonly id: string
  readonly person: LoginPerson
  readonly login: PersonLogin
  readonly isCheckDue: boolean
}

/** A row that the store has written. */
const tokensOf = (value: JsonObject, refresh: string): ProgramTokens => {
  const { id, person } = value as unknown as Omit<ProgramTokens, 'refresh'>
  return { id, person, refresh }
}

/** Of a random text, under which it is stored. */
export const digestOf = (text: string): string => hash('sha256', text, 'hex')

/** The fields of a form. */
export const formOf = async ({ request }: Pick<SignInStep, 'request'>): Promise<Outcome<URLSearchParams>> => {
  const body = await request.readBody('unknown')
  return body.ok ? good(new URLSearchParams(body.value)) : bad(body.failure)
}

/** The name of a program as it states it, for the person who confirms. */
const clientIn = (form: URLSearchParams): string => {
  const stated = form.get('surface') ?? form.get('client_id') ?? ''
  return stated.replaceAll(/[^\w .:-]/g, '').slice(0, MAX_CLIENT) || 'a program without a name'
}

const answer = (reply: ResponseWriter, status: number, body: JsonObject): void => {
  reply.writeHead(status, {
    'content-type': 'application/json',
    ...NO_STORE,
    ...(status >= 429 && { 'retry-after': '5' }),
  })
  reply.end(JSON.stringify(body))
}

const refuse = (reply: ResponseWriter, { status, error, text }: OAuthRefusal): void =>
  answer(reply, status, { error, error_description: text })

const AWAY = { status: 503, error: 'temporarily_unavailable', text: 'The gateway cannot store sign-ins at present.' }
const ISSUER_AWAY = { status: 503, error: 'temporarily_unavailable', text: 'The identity provider does not answer.' }
const ENDED = { status: 401, error: 'invalid_grant', text: 'This sign-in has ended. Sign in again.' }
const TOO_MANY = { status: 429, error: 'slow_down', text: 'Too many requests came from this address. Wait a minute.' }
const UNKNOWN_GRANT = {
  status: 400,
  error: 'unsupported_grant_type',
  text: `Send grant_type ${DEVICE_GRANT} or refresh_token, as a form.`,
}
const MISSING = { status: 400, error: 'invalid_request', text: 'The form has no device_code or refresh_token.' }

const deviceRefusal = ({ code, message, status }: ControlError): OAuthRefusal => {
  if (status === 503) return AWAY
  const error = code === 'person_blocked' || code === 'invalid_grant' ? 'access_denied' : code
  return { status: 400, error, text: message }
}

const refreshRefusal = ({ status }: ControlError): OAuthRefusal => (status === 503 ? AWAY : ENDED)
