/** Calls of the admin API: session, errors, repeated calls after a sign-in, and values that a page keeps up to date. */
import { type Signal, signal, useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { type HeldRole, type HeldScope, holdsRole, type RoleName } from './roles.ts'
import { PREFIX } from './root.ts'

const BASE = `${PREFIX}/admin/api/v1`

/** Why a call failed. `status` 0: the gateway did not answer. */
export type ApiProblem = {
  readonly status: number
  readonly code: string
  readonly message: string
  /** ID of the failed call in the log of the gateway. */
  readonly requestId: string | null
  /** What is wrong with which member of the body. */
  readonly fields: readonly { readonly path: string; readonly message: string }[]
}

/** A failed call. */
export class ApiError extends Error {
  readonly problem: ApiProblem
  constructor(problem: ApiProblem) {
    super(problem.message)
    this.problem = problem
  }
}

/** Who is signed in. */
export type SessionInfo = {
  readonly actor: {
    readonly kind: 'token' | 'bootstrap' | 'local' | 'person'
    readonly id: string
    readonly name: string
  }
  readonly roles: readonly HeldRole[]
  readonly csrf: string | null
  readonly expires_at: string | null
  readonly version: string
  readonly tape?: 'record' | 'replay' | 'strict' | null
}

/** Null: not known yet, or the sign-in is needed. */
export const session = signal<SessionInfo | null>(null)
/** Whether the dialog for the sign-in is open. `again`: a session has ended. */
export const signInNeeded = signal<'no' | 'first' | 'again'>('no')
/** Since when the gateway does not answer, in ms since 1970; null: it does. */
export const offlineSince = signal<number | null>(null)
/** Changes when every value must be read again: after a restart, a reconnection or a sign-in. */
export const refreshes = signal(0)
export const refreshAll = (): void => {
  refreshes.value++
}

/** Whether the session holds a role: for all teams, for any, or for the team with this ID. */
export const hasRole = (role: RoleName, scope: HeldScope = 'any'): boolean => holdsRole(session.value, role, scope)

/** Values of a query; lists repeat the name, and undefined or null leave it out. */
export type ApiQuery = { readonly [name: string]: string | number | boolean | readonly string[] | null | undefined }

/** The answer of a list. */
export type ApiList<Entry> = { readonly data: readonly Entry[] }

/** The address of a call. */
export const apiPath = (path: string, query: ApiQuery = {}): string => {
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    value === null || value === undefined
      ? []
      : (Array.isArray(value) ? value : [value]).map((one) => `${name}=${encodeURIComponent(String(one))}`),
  )
  return `${BASE}${path}${pairs.length === 0 ? '' : `?${pairs.join('&')}`}`
}

const problemOf = async (response: Response): Promise<ApiProblem> => {
  const requestId = response.headers.get('x-request-id')
  const other = {
    status: response.status,
    code: 'unknown',
    message: `The answer has status ${response.status} and no message. A proxy before the gateway may have sent it.`,
    requestId,
    fields: [],
  }
  try {
    const { error } = await response.json()
    const { code = other.code, message = other.message, errors = [] } = error
    return { ...other, code: String(code), message: String(message), fields: errors }
  } catch {
    // The body is no error of the API, such as a page of a proxy.
    return other
  }
}

let signIns = 0
let signingIn: { readonly done: Promise<void>; readonly resolve: () => void } | null = null

/** Resolves after the sign-in. */
const signedIn = (): Promise<void> => {
  signInNeeded.value = session.value ? 'again' : 'first'
  if (!signingIn) {
    const { promise, resolve } = Promise.withResolvers<void>()
    signingIn = { done: promise, resolve }
  }
  return signingIn.done
}

const OFFLINE: ApiProblem = {
  status: 0,
  code: 'offline',
  message: 'The gateway does not answer.',
  requestId: null,
  fields: [],
}

const call = async (path: string, init: RequestInit): Promise<Response> => {
  let response: Response
  try {
    response = await fetch(path, { ...init, credentials: 'same-origin', cache: 'no-store' })
  } catch (error) {
    if (init.signal?.aborted) throw error
    offlineSince.value ??= Date.now()
    throw new ApiError(OFFLINE)
  }
  offlineSince.value = null
  if (response.ok) return response
  throw new ApiError(await problemOf(response))
}

/**
 * After a refused write: whether the session is a new one of the same person, as after a sign-in in another tab. Its value for
 * `x-headgate-csrf` is another then.
 */
const isRenewed = async (): Promise<boolean> => {
  const before = session.value
  await readSession()
  const { actor, csrf } = session.value ?? {}
  if (actor?.id !== before?.actor.id) refreshAll()
  return actor?.id === before?.actor.id && csrf !== before?.csrf
}

/** Calls, and once more after a sign-in or with the new session if it is needed. */
const callSignedIn = async (path: string, init: () => RequestInit): Promise<Response> => {
  const before = signIns
  try {
    return await call(path, init())
  } catch (error) {
    const { status } = problemIn(error)
    if (status === 401) {
      // The answer to a call that was sent before the sign-in may arrive after it.
      if (signIns === before) await signedIn()
    } else if (status !== 403 || init().method === undefined || !(await isRenewed())) throw error
    return await call(path, init())
  }
}

const inFlight = new Map<string, Promise<unknown>>()

/** Reads an object. Equal concurrent calls are one. `Answer` is the shape that docs/admin-api.md states for the path. */
export const read = <Answer>(path: string, query: ApiQuery = {}): Promise<Answer> => {
  const address = apiPath(path, query)
  const known = inFlight.get(address)
  // The same address has the same shape.
  if (known) return known as Promise<Answer>
  const reading = callSignedIn(address, () => ({}))
    .then((response): Promise<Answer> => response.json())
    .finally(() => inFlight.delete(address))
  inFlight.set(address, reading)
  return reading
}

/** Entries of a page of a list. */
const PAGE = 200

type ListedNames = { readonly [id: string]: string }

/** The entries of a list, page by page, up to `most`. `hasMore`: there are others. `names`: those that the pages have. */
export const readAll = async <Entry>(
  path: string,
  query: ApiQuery,
  most: number,
): Promise<{ readonly data: readonly Entry[]; readonly hasMore: boolean; readonly names: ListedNames }> => {
  type Read = { readonly data: readonly Entry[]; readonly has_more: boolean; readonly next: string | null } & {
    readonly names?: ListedNames
  }
  const data: Entry[] = []
  const names = {}
  let after: string | null = null
  do {
    const page: Read = await read(path, { ...query, limit: Math.min(PAGE, most - data.length), after })
    data.push(...page.data)
    Object.assign(names, page.names)
    after = page.has_more ? page.next : null
  } while (after !== null && data.length < most)
  return { data, hasMore: after !== null, names }
}

/** Conditions of a write. `rev`: the revision that was read. `force`: whatever it is now. */
export type WriteOptions = {
  readonly rev?: number
  readonly force?: boolean
  /** One value per intended act, so that a repeated call acts once. */
  readonly idempotencyKey?: string
}

/** Writes; undefined where the answer has no body. */
export const write = async <Answer>(
  method: 'POST' | 'PATCH' | 'DELETE' | 'PUT',
  path: string,
  body?: unknown,
  { rev, force, idempotencyKey }: WriteOptions = {},
): Promise<Answer> => {
  const init = (): RequestInit => ({
    method,
    headers: {
      ...(body !== undefined && { 'content-type': typeof body === 'string' ? 'text/plain' : 'application/json' }),
      ...(session.value?.csrf && { 'x-headgate-csrf': session.value.csrf }),
      ...(rev !== undefined && { 'if-match': `"${rev}"` }),
      ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }),
    },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
  await sessionIsKnown()
  const response = await callSignedIn(apiPath(path, force ? { force: true } : {}), init)
  const text = await response.text()
  // The shape of docs/admin-api.md, or nothing for a call whose answer has no body.
  return (text === '' ? undefined : JSON.parse(text)) as Answer
}

/** Reads who is signed in; opens the sign-in where it is needed. */
export const readSession = async (): Promise<void> => {
  session.value = await read<SessionInfo>('/session')
}

/** A page that is being opened may write before its session has been read, and a write needs `csrf`. */
const sessionIsKnown = async (): Promise<void> => {
  if (session.value === null) await readSession()
}

/** Where a browser signs in with a company account. `url`: leads back to this page. */
export type IdentityProviderLink = { readonly provider: string; readonly url: string }

/** The identity providers; empty: there is no single sign-on, or the gateway does not answer. */
export const identityProviders = async (): Promise<readonly IdentityProviderLink[]> => {
  try {
    const response = await call(`${BASE}/sign-in`, {})
    const { data }: ApiList<IdentityProviderLink> = await response.json()
    const here = `${location.pathname.slice(PREFIX.length)}${location.search}`
    return data.map(({ provider, url }) => ({ provider, url: `${url}&return=${encodeURIComponent(here)}` }))
  } catch {
    // The form for a token remains.
    return []
  }
}

/** Signs in with a token, which is not kept. */
export const signIn = async (token: string): Promise<void> => {
  const response = await call(`${BASE}/session`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ token }),
  })
  session.value = await response.json()
  signIns++
  signInNeeded.value = 'no'
  signingIn?.resolve()
  signingIn = null
  refreshAll()
}

/**
 * Calls the model API as the client `dashboard`, for example `/chat/completions`. Answers of every status are returned, as a
 * client would receive them. Throws `ApiError` if the gateway does not answer, and an `AbortError` after an abort.
 */
export const callModel = async (path: string, body: unknown, signal: AbortSignal): Promise<Response> => {
  const send = async (): Promise<Response> => {
    const headers = {
      'content-type': 'application/json',
      ...(session.value?.csrf && { 'x-headgate-csrf': session.value.csrf }),
    }
    try {
      return await fetch(apiPath(`/try/v1${path}`), { method: 'POST', headers, body: JSON.stringify(body), signal })
    } catch (error) {
      if (signal.aborted) throw error
      offlineSince.value ??= Date.now()
      throw new ApiError(OFFLINE)
    }
  }
  await sessionIsKnown()
  const response = await send()
  const { status } = response
  // A refusal of a provider comes after an attempt; without one it concerns the session.
  if ((status !== 401 && status !== 403) || response.headers.has('x-headgate-attempts')) return response
  if (!(await isRenewed()) && status === 403) return response
  return await send()
}

/** Ends the session. */
export const signOut = async (): Promise<void> => {
  const { end_session } = await write<{ readonly end_session: string | null }>('POST', '/session/logout')
  // The session at the identity provider would sign the person in again.
  if (end_session) location.assign(end_session)
  else location.reload()
}

/** The problem of a failed call, whatever was thrown. */
export const problemIn = (error: unknown): ApiProblem =>
  error instanceof ApiError
    ? error.problem
    : { status: 0, code: 'unexpected', message: String(error), requestId: null, fields: [] }

/** A value that was read, or the reason why not. After a failure the last value stays. */
export type Resource<Value> = {
  readonly value: Value | undefined
  readonly problem: ApiProblem | null
  readonly isLoading: boolean
  /** When the value was read, in ms since 1970. */
  readonly at: number | null
  readonly reload: () => void
}

const NOT_READ = { value: undefined, at: null }

/**
 * Reads a value, and again when `key` changes, after reconnections, and every `every` ms. A null key reads nothing. The value
 * of a former key stays until the next one is there or has failed, unless `isolated` is set.
 */
export const useResource = <Value>(
  key: string | null,
  load: () => Promise<Value>,
  { every = 0, isolated = false }: { readonly every?: number; readonly isolated?: boolean } = {},
): Resource<Value> => {
  type State = Omit<Resource<Value>, 'reload'>
  const state: Signal<State> = useSignal<State>({ ...NOT_READ, problem: null, isLoading: key !== null })
  const again = useSignal(0)
  /** The key of the value. */
  const readKey = useRef<string | null>(null)
  const refresh = refreshes.value
  const turn = again.value
  // The key stands for what `load` uses
  useEffect(() => {
    if (key === null) {
      state.value = { ...NOT_READ, problem: null, isLoading: false }
      return
    }
    let isOver = false
    state.value = { ...state.value, ...(isolated && NOT_READ), isLoading: true }
    const attempt = () =>
      load().then(
        (value) => {
          if (isOver) return
          readKey.current = key
          state.value = { value, problem: null, isLoading: false, at: Date.now() }
        },
        (error) => {
          if (isOver) return
          const problem = problemIn(error)
          // The frame shows that the gateway does not answer; what was read stays as it is.
          const { value, at } = readKey.current === key ? state.value : NOT_READ
          const isKept = problem.code === OFFLINE.code && value !== undefined
          state.value = { value, at, problem: isKept ? null : problem, isLoading: false }
        },
      )
    void attempt()
    const timer = every > 0 ? setInterval(() => !document.hidden && void attempt(), every) : undefined
    return () => {
      isOver = true
      clearInterval(timer)
    }
  }, [key, refresh, turn, every])
  const reload = () => {
    again.value++
  }
  return { ...state.value, reload }
}
