/** `headgate logs`: one line for each request, from the ledger or as they end. */
import { setTimeout as pause } from 'node:timers/promises'
import { readJson } from '../../core/json.ts'
import type { Shown } from '../../records/entities/shown.ts'
import { ENDED_REQUEST, REQUESTS_PAGE } from '../../server/answers/requests.ts'
import { idOf, isRecordId, queryOf, type RecordStore, throughGateway } from '../accounts/record-store.ts'
import { readAnswer } from '../answer.ts'
import { durationMs, timeOf } from '../arguments.ts'
import { type Cli, CliError, type DefineVerb, EXIT } from '../cli.ts'
import { bodyOf, errorOf, type GatewayClient, gatewayOf } from '../gateway-client.ts'
import { type EndedRequest, requestLine } from '../request-lines.ts'

type RequestLogOptions = {
  readonly follow?: true
  readonly team?: string
  readonly key?: string
  readonly model?: string
  readonly endUser?: string
  readonly session?: string
  readonly guard?: string
  readonly text?: string
  readonly status?: string
  readonly slow?: string
  readonly since: string
  readonly limit: string
}

const slowMs = (value: string | undefined): number | undefined => {
  const ms = value === undefined ? undefined : durationMs(value)
  if (value !== undefined && ms === undefined) throw new CliError(EXIT.usage, '--slow needs a duration such as 5s.')
  return ms
}

const print = (request: EndedRequest, cli: Cli): void =>
  cli.print(cli.options.json ? JSON.stringify(request) : requestLine(request, cli.paint))

type EventText = { readonly event: string; readonly data: string }

/** The events of a stream as text. */
async function* eventsOf(body: ReadableStream<Uint8Array>): AsyncGenerator<EventText & { readonly id: string | null }> {
  let rest = ''
  let [event, id]: [string, string | null] = ['', null]
  for await (const chunk of body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + chunk).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      if (line.startsWith('event: ')) event = line.slice(7)
      if (line.startsWith('id: ')) id = line.slice(4)
      if (line.startsWith('data: ')) yield { event, data: line.slice(6), id }
      if (line === '') [event, id] = ['', null]
    }
  }
}

/** Filters of a list of requests, as parameters of the API. `team` and `key`: their IDs. */
type RowFilter = {
  readonly team: string | undefined
  readonly key: string | undefined
  readonly any_model: string | undefined
  readonly end_user: string | undefined
  readonly session: string | undefined
  readonly guard: string | undefined
  readonly q: string | undefined
  readonly status: readonly string[]
  readonly min_ms: number | undefined
}

/** Revoked keys and those of `auth.keys` are found by their ID only. */
const keyOf = async (records: RecordStore, key: string): Promise<string> =>
  isRecordId(key) || STATIC_KEY.test(key) ? key : await idOf(records, 'key', key)

const STATIC_KEY = /^[0-9a-f]{4,16}$/

/** `4xx,5xx` as a list. */
const statusesOf = (text: string | undefined): readonly string[] =>
  text === undefined ? [] : text.split(',').map((one) => one.trim())

/** ms until the stream is opened again after it ended. */
const AGAIN = 1_000

/** Events that are recognized when they are repeated. */
const SEEN = 500

/** Rows of one question. */
const MOST_ASKED = 100
/** ms before now in which a request that ends now was received. */
const LONGEST = 7 * 86_400_000

/**
 * Prints requests that have ended and match the filter. The list decides about that, so that both have one rule: an event has
 * neither the errors nor the end user. Events that arrive meanwhile are one question.
 */
const printerOf = (cli: Cli, gateway: GatewayClient, filter: RowFilter): ((request: EndedRequest) => void) => {
  const { team: _, ...own } = filter
  const isFiltered = Object.values(own).some((value) => (Array.isArray(value) ? value.length > 0 : value !== undefined))
  const waiting: EndedRequest[] = []
  const matching = async (requests: readonly EndedRequest[]): Promise<readonly EndedRequest[]> => {
    const request_id = requests.map(({ id }) => id)
    const from = new Date(Date.now() - LONGEST).toISOString()
    const query = queryOf({ ...filter, request_id, from, limit: String(MOST_ASKED) })
    return (await gateway.read(REQUESTS_PAGE, `/admin/api/v1/requests${query}`)).data.toReversed()
  }
  let isPrinting = false
  const work = async (): Promise<void> => {
    isPrinting = true
    try {
      while (waiting.length > 0) for (const row of await matching(waiting.splice(0, MOST_ASKED))) print(row, cli)
    } catch (error) {
      cli.note(`Some requests are missing here: ${error instanceof Error ? error.message : 'unknown error'}`)
    }
    isPrinting = false
  }
  return (request) => {
    if (!isFiltered) return print(request, cli)
    waiting.push(request)
    if (!isPrinting) void work()
  }
}

const follow = async (cli: Cli, gateway: GatewayClient, filter: RowFilter): Promise<void> => {
  const printMatching = printerOf(cli, gateway, filter)
  let last: string | null = null
  // After a reconnect some events are sent again.
  let seen: readonly string[] = []
  for (;;) {
    const response = await gateway.send(`/admin/api/v1/live${queryOf({ topics: 'requests', team: filter.team })}`, {
      headers: {
        accept: 'text/event-stream',
        ...(gateway.token && { authorization: `Bearer ${gateway.token}` }),
        ...(last !== null && { 'last-event-id': last }),
      },
      timeout: 2_147_483_647,
    })
    if (!response.ok || !response.body) throw errorOf(response, await bodyOf(response))
    try {
      for await (const { event, data, id } of eventsOf(response.body)) {
        if (id !== null && seen.includes(id)) continue
        last = id ?? last
        if (id !== null) seen = [id, ...seen].slice(0, SEEN)
        if (event === 'gap') cli.note('Some requests are missing here: the connection was too slow.')
        if (event !== 'request') continue
        const request = readAnswer(ENDED_REQUEST, readJson(data))
        if (request.ok) printMatching(request.value)
        else cli.note(`A request cannot be read: ${request.problem}.`)
      }
    } catch (error) {
      cli.note(`The stream ended: ${error instanceof Error ? error.message : 'unknown error'}.`)
    }
    await pause(AGAIN)
  }
}

type Page = Shown<typeof REQUESTS_PAGE>

/** The newest requests of a query. The gateway searches for a second at a time. */
const searched = async (cli: Cli, gateway: GatewayClient, query: RowFilter & { readonly limit: string }) => {
  const rows: Page['data'][number][] = []
  let next: string | null = null
  do {
    const rest = next === null ? {} : { after: next, limit: String(Number(query.limit) - rows.length) }
    const path = `/admin/api/v1/requests${queryOf({ ...query, ...rest })}`
    const page: Page = await gateway.read(REQUESTS_PAGE, path)
    rows.push(...page.data)
    next = page.next
    if (page.searched_until !== null) cli.note(`Searched until ${page.searched_until}.`)
  } while (next !== null && rows.length < Number(query.limit))
  return { rows, next }
}

export const define: DefineVerb = (command, cli) => {
  command
    .option('-f, --follow', 'print requests as they end, until interrupted')
    .option('--team <team>', 'only requests of this team: name or ID')
    .option('--key <key>', 'only requests of this client key: name or ID')
    .option('--model <model>', 'only requests for this model or route, or answered by this model')
    .option('--end-user <user>', 'only requests of this end user')
    .option('--session <id>', 'only requests of this session')
    .option('--guard <name>', 'only requests in which this guard found something')
    .option('--text <text>', 'only requests with this text in an error, model, trail or ID')
    .option('--status <code>', 'only this status, such as 404 or 5xx; several with commas')
    .option('--slow <duration>', 'only requests that took at least this long, such as 5s')
    .option('--since <time>', 'beginning, without -f: 1h, yesterday or 2026-11-23', '1h')
    .option('--limit <count>', 'at most this many, without -f', '50')
    .addHelpText(
      'after',
      '\nExample: headgate logs -f --status 5xx\nExample: headgate logs --key search-prod --text "rate limit"',
    )
    .action(async (options: RequestLogOptions) => {
      const { model, endUser, session, guard, text: q } = options
      const min_ms = slowMs(options.slow)
      const gateway = await gatewayOf(cli())
      const records = throughGateway(gateway)
      const team = options.team === undefined ? undefined : await idOf(records, 'team', options.team)
      const key = options.key === undefined ? undefined : await keyOf(records, options.key)
      const filter = {
        team,
        key,
        any_model: model,
        end_user: endUser,
        session,
        guard,
        q,
        status: statusesOf(options.status),
        min_ms,
      }
      if (options.follow) return await follow(cli(), gateway, filter)
      const query = { ...filter, from: timeOf('--since', options.since, -1), limit: options.limit }
      const { rows, next } = await searched(cli(), gateway, query)
      for (const request of rows.toReversed()) print(request, cli())
      if (rows.length === 0) cli().note('No request matches.')
      if (next !== null) cli().note('There are more; use --limit or --since.')
    })
}
