/**
 * The provider of the scenario, as a process of its own. It counts the calls of each request by the name in its last message,
 * so that the ledger can be compared with what was served. Run directly it is that process; imported it starts one.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { isList, list, object, text } from '../../src/core/json.ts'
import { answerWith } from '../support/answers.ts'
import { type Act, startUpstream, type UpstreamRequest } from '../support/upstream.ts'

/** What each answer is billed: tokens, and nano-dollars at the prices of the scenario. */
export const BILLED = { input: 10, output: 100, cost: 4_100_000 } as const
/** ms before an answer, and between two events of a stream. */
const PACE = { first: 40, gap: 20 } as const
/** ms before an answer to the key whose requests in progress are limited. */
const HELD = 500

/** What the provider has served. */
export type Served = {
  /** Calls by the name of the request. */
  readonly calls: Readonly<Record<string, number>>
  /** Most calls in progress at once, by the part of the name before the first `-`. */
  readonly peaks: Readonly<Record<string, number>>
}

export type Provider = {
  /** `http://127.0.0.1:…` */
  readonly url: string
  served(): Promise<Served>
  stop(): Promise<void>
}

/** The answer to the request of this name, which is the `turn`th of its conversation. */
export const answerTo = (name: string, turn: number): string => `${name} is turn ${turn}: ${'word '.repeat(20)}end`

export const startProvider = async (): Promise<Provider> => {
  const child: ChildProcess = fork(import.meta.filename, [], { stdio: 'inherit', execArgv: [] })
  const exited = once(child, 'exit')
  const next = (): Promise<unknown> =>
    Promise.race([
      once(child, 'message').then(([value]) => value),
      exited.then(() => Promise.reject(new Error('the process of the provider has ended'))),
    ])
  const port = Number(await next())
  return {
    url: `http://127.0.0.1:${port}`,
    served() {
      const answer = next()
      child.send('served')
      // Sent by the code below.
      return answer as Promise<Served>
    },
    async stop() {
      child.kill('SIGKILL')
      await exited
    },
  }
}

const nameOf = (request: UpstreamRequest): string => {
  const { content } = object(list(request.json.messages).at(-1)) ?? {}
  return text(content) ?? text(object(isList(content) ? content[0] : undefined)?.text) ?? ''
}

/** The turn that the last message begins: each earlier one is a question and its answer. */
const turnOf = (request: UpstreamRequest): number => (list(request.json.messages).length + 1) / 2

if (process.argv[1] === import.meta.filename) {
  const calls: Record<string, number> = {}
  const peaks: Record<string, number> = {}
  const running: Record<string, number> = {}
  const answer = async (request: UpstreamRequest): Promise<Act> => {
    if (request.method === 'GET') return { do: 'answer', status: 404, body: { error: { message: 'no list' } } }
    const name = nameOf(request)
    const [kind = ''] = name.split('-')
    calls[name] = (calls[name] ?? 0) + 1
    // It ends before the answer begins, so that a peak has only calls that the gateways have in progress too.
    running[kind] = (running[kind] ?? 0) + 1
    peaks[kind] = Math.max(peaks[kind] ?? 0, running[kind])
    await sleep(kind === 'slots' ? HELD : PACE.first)
    running[kind]--
    return answerWith(request, { text: answerTo(name, turnOf(request)), ...BILLED }, { gap: PACE.gap })
  }
  const upstream = await startUpstream(answer, { discardsRecords: true })
  process.on('message', () => process.send?.({ calls, peaks } satisfies Served))
  process.send?.(upstream.port)
  // The parent process has ended.
  process.on('disconnect', () => process.exit())
}
