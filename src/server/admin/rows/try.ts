/** The model API behind the session of the dashboard, as the client `dashboard`. */
import { CREDENTIAL_HEADERS } from '../../../core/credential-headers.ts'
import { bad, good, type Outcome } from '../../../core/failure.ts'
import type { HeaderLookup } from '../../../core/headers.ts'
import type { ResponseWriter } from '../../../core/http-exchange.ts'
import { memoryOwnerOf } from '../../request-admission.ts'
import { ROUTES, type RouteName } from '../../routes.ts'
import type { AdminDeps } from '../deps.ts'
import { type AdminCall, type AdminRow, type Answered, row } from '../row.ts'

const messages = [{ role: 'user', content: 'Hello' }]

/** The routes, with an example of a request to each. */
const EXAMPLES = {
  chat: { model: 'demo/echo', messages },
  responses: { model: 'demo/echo', input: 'Hello' },
  compact: { model: 'demo/echo', input: 'Hello' },
  inputTokens: { model: 'demo/echo', input: 'Hello' },
  messages: { model: 'demo/echo', max_tokens: 100, messages },
  countTokens: { model: 'demo/echo', messages },
  completions: { model: 'demo/echo', prompt: 'Hello' },
  embeddings: { model: 'demo/echo', input: 'Hello' },
  models: undefined,
} as const satisfies { readonly [name in RouteName]?: object | undefined }

/** The dashboard authenticates with one of these, which a model call does not need. */
const HIDDEN: ReadonlySet<string> = new Set(CREDENTIAL_HEADERS)

const withoutCredentials =
  (headers: HeaderLookup): HeaderLookup =>
  (name) =>
    HIDDEN.has(name) ? undefined : headers(name)

/** Answers of the admin API are not stored by browsers. */
class UnstoredReply implements ResponseWriter {
  readonly #reply: ResponseWriter

  constructor(reply: ResponseWriter) {
    this.#reply = reply
  }

  writeHead(status: number, headers: Readonly<Record<string, string>>): void {
    this.#reply.writeHead(status, { ...headers, 'cache-control': 'no-store' })
  }
  write(piece: Parameters<ResponseWriter['write']>[0]): boolean {
    return this.#reply.write(piece)
  }
  end(text?: string): void {
    this.#reply.end(text)
  }
  abort(): void {
    this.#reply.abort()
  }
  onDrain(run: () => void): void {
    this.#reply.onDrain(run)
  }
  onDisconnect(run: () => void): void {
    this.#reply.onDisconnect(run)
  }
}

const answer = async (
  { handlers, dashboard }: AdminDeps,
  { request, body }: AdminCall<unknown, unknown, string | undefined>,
  name: keyof typeof EXAMPLES,
): Promise<Outcome<Answered<never>>> => {
  const client = dashboard('playground')
  if (!client.ok) return client
  const { path, method, model } = ROUTES[name]
  const refused = model ? request.beginCall() : null
  if (refused) return bad(refused)
  const received = {
    id: request.id,
    method,
    path,
    query: '',
    headers: withoutCredentials(request.headers),
    body: { text: body ?? '' },
    client: client.value,
    memoryOwner: memoryOwnerOf(client.value.id),
  }
  return good({ stream: (reply) => handlers[name](received, new UnstoredReply(reply), '') })
}

const ABOUT =
  'As this path of the model API, streams included, as the client `dashboard` with the tag `source: playground`. Where the default team has a key with the name `dashboard`, its access, limits and budgets apply. A body has at most 8 MiB.'

const tryRow = (name: keyof typeof EXAMPLES): AdminRow => {
  const { path, method } = ROUTES[name]
  const common = {
    path: `/try${path}`,
    summary: method === 'GET' ? 'List the models that the dashboard may use' : `Try ${method} ${path}`,
    about: ABOUT,
    role: 'operator',
    scope: 'all',
    answer: { media: 'application/json', about: 'As of the model API; text/event-stream for a stream' },
  } as const
  return method === 'GET'
    ? row({ ...common, method, example: {}, handle: (deps, call) => answer(deps, { ...call, body: undefined }, name) })
    : row({
        ...common,
        method,
        body: 'json',
        example: { body: EXAMPLES[name] },
        handle: (deps, call) => answer(deps, call, name),
      })
}

// `Object.keys` types the names as strings.
export const tryRows = (Object.keys(EXAMPLES) as (keyof typeof EXAMPLES)[]).map(tryRow)
