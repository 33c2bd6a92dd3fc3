/** The page on which a person types and confirms the code of a program. It has no script, and sends no code by itself. */
import { randomBytes } from 'node:crypto'
import { isObject, number, text } from '../../../core/json.ts'
import type { SignedIn, SignInSettings } from '../../../core/sign-in.ts'
import { addressGroup } from '../../../policy/health/shed.ts'
import { DEVICE_LIFE, readUserCode, shownUserCode } from '../../../policy/sign-in/device.ts'
import { DEVICE_PAGE } from '../../../policy/sign-in/pending.ts'
import type { LoginPerson, PersonLogin, RunOperation } from '../../../records/store/record-operations.ts'
import { FailedAttempts } from '../../failed-attempts.ts'
import { cookieValue } from '../cookies.ts'
import { isEqualSecret, SESSION_CONTEXT } from '../sessions.ts'
import { FORM_HEADERS, formPage, type SignInRefusal } from './pages.ts'
import { digestOf, formOf } from './programs.ts'
import { seal, unseal } from './sealing.ts'
import { noteSignIn, type SignInStep, signInUrl } from './steps.ts'

/** Wrong codes of an address in a minute (RFC 8628, 5.1). */
const LIMIT = 10
const COOKIE = { secure: '__Host-headgate-device', loopback: 'headgate-device' }

/** The code that a browser confirms. `confirm`: the form of the decision repeats it; null: the person has not signed in. */
type Confirmed = {
  readonly code: string
  readonly confirm: string | null
  /** The account, as it is shown. */
  readonly who: string
  readonly until: number
}

export type DevicePageOptions = {
  readonly run: RunOperation
  /** ms since 1970. */
  readonly now: () => number
  /** Whether a person may use anything here. */
  readonly mayEnter: (settings: SignInSettings, person: LoginPerson) => boolean
}

type Claimed = { readonly person: SignedIn; readonly login: PersonLogin }

export class DevicePage {
  readonly #options: DevicePageOptions
  readonly #wrong: FailedAttempts

  constructor(options: DevicePageOptions) {
    this.#options = options
    this.#wrong = new FailedAttempts(options.now, LIMIT)
  }

  /** Shows the form for the code, or, after the sign-in, the one for the decision. */
  async show(step: SignInStep): Promise<void> {
    const given = new URLSearchParams(step.request.query).get('user_code')
    const confirmed = given === null ? this.#confirmed(step) : null
    if (confirmed?.confirm) {
      const found = await this.#find(confirmed.code)
      if (found) return showDecision(step, confirmed, found)
    }
    const code = given === null ? null : readUserCode(given)
    showForm(step, 200, { code: code === null ? '' : shownUserCode(code), sentence: TYPE })
  }

  /** Receives one of these forms. */
  async receive(step: SignInStep): Promise<void> {
    const { settings, request } = step
    if (!isOwnPage(step)) return showForm(step, 403, { code: '', sentence: FOREIGN })
    const network = addressGroup(request.address)
    if (this.#wrong.waitFor(network) > 0) return showForm(step, 429, { code: '', sentence: TOO_MANY })
    const form = await formOf(step)
    if (!form.ok) return request.refuse(form.failure)
    if (form.value.has('decision')) return this.#decide(step, form.value)
    const code = readUserCode(form.value.get('user_code') ?? '')
    const found = code === null ? null : await this.#find(code)
    if (code === null || !found) {
      this.#wrong.add(network)
      return showForm(step, 400, { code: '', sentence: UNKNOWN })
    }
    const until = this.#options.now() + DEVICE_LIFE
    const links = settings.providers.map(({ name }) => ({
      href: signInUrl(settings, name, DEVICE_PAGE),
      text: `Sign in with ${name}`,
    }))
    const sentence = `${asking(found)} Its code is ${shownUserCode(code)}. Go on only if you have started it yourself just now.`
    page(step, 200, { title: 'Sign in', sentence, links }, cookieOf(settings, { code, confirm: null, who: '', until }))
  }

  /** A person has signed in to confirm a code. Returns the cookie with which the page asks for the decision, or why it is refused. */
  async claim(step: SignInStep, { person, login }: Claimed): Promise<{ readonly cookie: string } | SignInRefusal> {
    const { settings } = step
    const known = this.#confirmed(step)
    if (!known) return 'not_begun'
    const confirm = randomBytes(32).toString('base64url')
    const claim = { do: 'device_claim', code: known.code, confirm: digestOf(confirm), person, login } as const
    const claimed = await this.#options.run(claim, SESSION_CONTEXT)
    if (!claimed.ok) {
      if (claimed.error.code === 'person_blocked') return 'blocked'
      return claimed.error.status === 503 ? 'storage' : 'device_code'
    }
    // A row that the store has written.
    const stored = claimed.value.person as unknown as LoginPerson
    if (!this.#options.mayEnter(settings, stored)) return 'no_team'
    const who = stored.email ?? stored.name ?? stored.id
    return { cookie: cookieOf(settings, { ...known, confirm, who }) }
  }

  async #decide(step: SignInStep, form: URLSearchParams): Promise<void> {
    const { request } = step
    const confirmed = this.#confirmed(step)
    const isSame = confirmed?.confirm && isEqualSecret(form.get('confirm') ?? '', confirmed.confirm)
    if (!confirmed?.confirm || !isSame) return showForm(step, 400, { code: '', sentence: UNKNOWN })
    const approve = form.get('decision') === 'approve'
    const { run } = this.#options
    const decided = await run({ do: 'device_decide', confirm: digestOf(confirmed.confirm), approve }, SESSION_CONTEXT)
    const gone = cookieOf(step.settings, null)
    if (!decided.ok) return page(step, 400, { title: 'Sign in', sentence: UNKNOWN, links: [] }, gone)
    const { person, client, address } = decided.value
    const action = approve ? 'login' : 'login.refused'
    const details = { client: client ?? '', address: address ?? '', ...(!approve && { why: 'denied' }) }
    await noteSignIn(run, request, { action, object: text(person) ?? '', name: confirmed.who, details })
    const sentence = approve ? APPROVED : DENIED
    page(step, 200, { title: approve ? 'You are signed in' : 'Refused', sentence, links: [] }, gone)
  }

  async #find(code: string): Promise<AskingProgram | null> {
    const found = await this.#options.run({ do: 'device_find', code }, SESSION_CONTEXT)
    return found.ok ? { client: text(found.value.client) ?? '', address: text(found.value.address) ?? '' } : null
  }

  #confirmed({ settings: { publicUrl, secrets }, request }: SignInStep): Confirmed | null {
    const sealed = cookieValue(request.headers, cookieName(publicUrl))
    const content = sealed === undefined ? null : unseal(secrets, 'device', sealed)
    const read: unknown = content === null ? null : JSON.parse(content)
    if (!isObject(read)) return null
    const [code, until] = [text(read.code), number(read.until)]
    if (!code || until === undefined || until <= this.#options.now()) return null
    return { code, until, confirm: text(read.confirm) ?? null, who: text(read.who) ?? '' }
  }
}

type AskingProgram = { readonly client: string; readonly address: string }

const asking = ({ client, address }: AskingProgram): string =>
  `${client} at the address ${address} asks to sign in as you.`

/**
 * Whether a form was sent by a page of this gateway. Browsers state the site of a request or its origin; a program that states neither
 * has no cookie of a person.
 */
const isOwnPage = ({ settings, request: { headers } }: SignInStep): boolean => {
  const [site, origin] = [headers('sec-fetch-site'), headers('origin')]
  if (site !== undefined && site !== 'same-origin') return false
  return origin === undefined || origin === new URL(settings.publicUrl).origin
}

const cookieName = (publicUrl: string): string =>
  publicUrl.startsWith('https:') ? COOKIE.secure : `${COOKIE.loopback}-${new URL(publicUrl).port}`

/** Null: removes it. */
const cookieOf = ({ publicUrl, secrets }: SignInSettings, confirmed: Confirmed | null): string => {
  const secure = publicUrl.startsWith('https:') ? '; Secure' : ''
  const value = confirmed === null ? '' : seal(secrets, 'device', JSON.stringify(confirmed))
  const age = confirmed === null ? 0 : DEVICE_LIFE / 1_000
  return `${cookieName(publicUrl)}=${value}; Path=/; Max-Age=${age}; HttpOnly; SameSite=Lax${secure}`
}

const page = (
  { request, reply }: SignInStep,
  status: number,
  content: Omit<Parameters<typeof formPage>[0], 'requestId'>,
  cookie?: string,
): void => {
  reply.writeHead(status, {
    ...FORM_HEADERS,
    ...(cookie !== undefined && { 'set-cookie': cookie }),
    ...(status === 429 && { 'retry-after': '60' }),
  })
  reply.end(formPage({ ...content, requestId: request.id }))
}

const showForm = (
  step: SignInStep,
  status: number,
  { code, sentence }: { readonly code: string; readonly sentence: string },
): void =>
  page(step, status, {
    title: 'Sign in a program',
    sentence,
    links: [],
    form: {
      input: { name: 'user_code', label: 'Code', value: code },
      buttons: [{ name: 'step', value: 'code', text: 'Continue' }],
    },
  })

const showDecision = (step: SignInStep, { code, confirm, who }: Confirmed, found: AskingProgram): void =>
  page(step, 200, {
    title: 'Allow this program?',
    sentence: `${asking(found)} Its code is ${shownUserCode(code)}, your account is ${who}. Allow it only if this program shows this code to you: it can then use the gateway in your name.`,
    links: [],
    form: {
      hidden: { name: 'confirm', value: confirm ?? '' },
      buttons: [
        { name: 'decision', value: 'approve', text: 'Allow' },
        { name: 'decision', value: 'deny', text: 'Refuse' },
      ],
    },
  })

const TYPE = 'Type the code that the program shows. Compare it if it is already here.'
const UNKNOWN =
  'This code is unknown, was used, or is older than 10 minutes. Type it again, or start the program again.'
const TOO_MANY = 'Too many wrong codes came from this address. Wait a minute.'
const FOREIGN = 'Another page has sent this code. Type the code that your program shows.'
const APPROVED = 'The program is signed in. You may close this page.'
const DENIED = 'The program was not signed in.'
