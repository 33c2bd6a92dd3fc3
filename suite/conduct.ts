/** Families D (conduct), E (recovery), F (truth) and G (isolation). */
import { BAD_KEY, BUSY, LIMITED } from './before.ts'
import { CLIENT_KEY } from './client.ts'
import type { Check } from './judge.ts'
import {
  addressOf,
  advisory,
  atLeast,
  atMost,
  bounded,
  type Judged,
  type Run,
  type Scenario,
  slowest,
} from './scenario.ts'
import { piecesOf, USAGE, VENDOR_KEYS } from './wall.ts'
import { hugeWords } from './within.ts'

const FAILOVERBENCH = 'https://github.com/failoverbench/failoverbench/blob/main/scenarios/catalogue.yaml'
const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

/** Calls `times` times, so many at once. */
const many = async (times: number, atOnce: number, ask: (index: number) => Promise<unknown>): Promise<void> => {
  let next = 0
  const worker = async () => {
    while (next < times) await ask(next++)
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
}

/** Calls with a pause between their starts. */
const sequence = async (times: number, gap: number, ask: () => Promise<unknown>): Promise<void> => {
  const asked: Promise<unknown>[] = []
  for (let index = 0; index < times; index++) {
    asked.push(ask())
    if (index < times - 1) await pause(gap)
  }
  await Promise.all(asked)
}

const refusal =
  (code: string, message: string): Scenario['script'] =>
  () => ({
    error: { status: 400, type: 'invalid_request_error', code, message },
  })

/** ms from the time at which the client left to the end of the vendor's response. */
const closedWithin = (run: Run): Check => {
  const left = (run.judged[0]?.askedAt ?? 0) + (run.judged[0]?.seen.ms ?? 0)
  const late = run.attempts().map(({ closed }) => (closed === null ? 99_999 : Math.round(closed - left)))
  return atMost('ms to the close at the vendor', Math.max(...late, late.length === 0 ? 99_999 : 0), 1_000)
}
/** Leaves, and waits for what the gateway does. */
const leaving = (leave: { readonly pieces?: number; readonly ms: number }) => async (run: Run) => {
  await run.ask({ leave })
  await pause(1_500)
}
const endless: Scenario['script'] = () => ({ pace: 200 })

export const CONDUCT: readonly Scenario[] = [
  {
    id: 'd01',
    title: 'client leaves before the content',
    source: 'https://github.com/musistudio/claude-code-router/pull/1505',
    styles: ['chat'],
    ideal: 'either',
    script: () => ({ fault: 'silence' }),
    drive: leaving({ ms: 700 }),
    checks: (run) => [closedWithin(run)],
  },
  {
    id: 'd02',
    title: 'client leaves after the content',
    source: 'https://github.com/bman654/clodex/issues/170',
    styles: ['chat'],
    ideal: 'either',
    script: endless,
    drive: leaving({ pieces: 4, ms: 6_000 }),
    checks: (run) => [closedWithin(run)],
  },
  {
    id: 'd03',
    title: '400 is not retried',
    source: 'https://www.rfc-editor.org/rfc/rfc9110#section-15.5.1',
    styles: ['chat'],
    ideal: 'error',
    script: refusal('invalid_value', 'The value of temperature is invalid.'),
    fallback: 'refuses',
    checks: (run) => [bounded(run, 1)],
  },
  {
    id: 'd04',
    title: 'a content refusal is not retried, and not routed around',
    source: `${FAILOVERBENCH} (S13)`,
    styles: ['chat'],
    ideal: 'either',
    script: refusal('content_policy_violation', 'Your request was rejected by the safety system.'),
    checks: (run) => [bounded(run, 1), advisory(atMost('attempts at the fallback', run.attempts('backup').length, 0))],
  },
  {
    id: 'd05',
    title: 'an outage under 200 requests',
    source: 'https://sre.google/sre-book/handling-overload/',
    styles: ['chat'],
    ideal: 'answer',
    script: () => BUSY,
    drive: (run) => many(200, 20, () => run.ask()),
    checks: (run) => {
      const each = run.attempts().length / Math.max(1, run.judged.length)
      return [atMost('attempts a request', each, 4), advisory(atMost('attempts a request', each, 1.3))]
    },
    alone: true,
  },
  {
    id: 'd06',
    title: 'Retry-After is kept by later requests',
    source: 'https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3',
    styles: ['chat'],
    ideal: 'answer',
    script: (_, since) => (since < 5_000 ? LIMITED(5) : {}),
    drive: (run) => sequence(6, 600, () => run.ask()),
    checks: (run) => {
      const attempts = run.attempts('primary')
      const early = attempts.filter(({ at }) => at - (attempts[0]?.at ?? 0) < 4_500).length
      return [atMost('attempts before the time', early, 12), advisory(atMost('attempts before the time', early, 1))]
    },
  },
  {
    id: 'd07',
    title: 'a request with side effects is sent once',
    source: 'https://www.rfc-editor.org/rfc/rfc9110#section-9.2.2',
    styles: ['responses'],
    ideal: 'error',
    script: () => ({ response: () => ({ head: null, pieces: [], end: 'closed' }) }),
    drive: async (run) => {
      const server = {
        type: 'mcp',
        server_label: 'mail',
        server_url: 'https://mail.example/mcp',
        require_approval: 'never',
      }
      await run.ask({ extra: { tools: [server] } })
    },
    checks: (run) => [atMost('attempts', run.attempts().length, 1)],
  },
  {
    id: 'd08',
    title: 'unknown members arrive',
    source: 'https://docs.litellm.ai/docs/completion/provider_specific_params',
    styles: ['chat'],
    ideal: 'answer',
    script: () => ({}),
    drive: async (run) => {
      await run.ask({ extra: { suite_option: { depth: 3, words: ['a', 'b'] } } })
    },
    checks: (run) => [
      {
        name: 'the member is in the request of the vendor',
        ok: /"suite_option":\s*\{"depth":\s*3,\s*"words":\s*\["a",\s*"b"\]\}/.test(run.attempts()[0]?.body ?? ''),
      },
    ],
  },
  {
    id: 'd09',
    title: "the client's key does not arrive",
    source: 'https://cwe.mitre.org/data/definitions/522.html',
    styles: ['chat'],
    ideal: 'answer',
    script: () => ({}),
    checks: (run) => [
      {
        name: "the vendor has its own key and not the client's",
        ok: run
          .attempts()
          .every(
            ({ key, headers, body }) =>
              VENDOR_KEYS.some((own) => own === key) &&
              !`${JSON.stringify(headers)}${body}`.includes(run.system.apiKey ?? CLIENT_KEY),
          ),
      },
    ],
  },
]

/** The largest number of attempts at the same time. */
const atOnceIn = (attempts: readonly { readonly at: number; readonly closed: number | null }[]): number =>
  Math.max(
    0,
    ...attempts.map(({ at }) => attempts.filter((other) => other.at <= at && (other.closed ?? Infinity) > at).length),
  )

const RECOVERY: readonly Scenario[] = [
  {
    id: 'e04',
    title: 'one model dead, others of the vendor live',
    source: 'https://docs.litellm.ai/docs/routing#cooldowns',
    styles: ['chat'],
    ideal: 'answer',
    script: ({ model }) => (model.includes('sibling') ? {} : BUSY),
    drive: async (run) => {
      await many(10, 5, () => run.ask())
      await many(10, 5, () => run.ask({ model: run.sibling }))
    },
    checks: (run) => {
      const served = run.judged.filter(({ seen }) => seen.usage?.input === USAGE.primary.input).length
      return [advisory(atLeast('answers of the living model', served, 10))]
    },
  },
  {
    id: 'e05',
    title: 'one key dead',
    source: 'https://platform.openai.com/docs/guides/error-codes',
    styles: ['chat'],
    ideal: 'answer',
    place: 'two keys',
    script: (attempt, since) => (attempt.key.includes('-two-') ? {} : BAD_KEY(attempt, since)),
    drive: (run) => many(20, 2, () => run.ask()),
    checks: (run) => {
      const dead = run.attempts('primary').filter(({ key }) => !key.includes('-two-')).length
      return [
        atMost('attempts with the dead key', dead, 60),
        advisory(atMost('attempts with the dead key', dead, 3)),
        advisory(atMost('attempts at the fallback', run.attempts('backup').length, 0)),
      ]
    },
  },
  {
    id: 'e06',
    title: 'both vendors down: an error at once',
    source: 'https://www.rfc-editor.org/rfc/rfc9110#section-15.6.4',
    styles: ['chat'],
    ideal: 'error',
    script: () => BUSY,
    fallback: 'down',
    checks: (run) => [atMost('ms', slowest(run), 30_000), advisory(atMost('ms', slowest(run), 2_000))],
  },
]

export const recovery = (scale: number): readonly Scenario[] => {
  const down = 60_000 * scale
  return [
    {
      id: 'e01',
      title: 'down for 60 s, then back',
      source: `${FAILOVERBENCH} (S15)`,
      styles: ['chat'],
      ideal: 'answer',
      script: (_, since) => (since < down ? BUSY : {}),
      drive: (run) =>
        sequence(Math.ceil((down + 20_000 * Math.max(0.6, scale)) / (4_000 * scale)), 4_000 * scale, () => run.ask()),
      checks: (run) => {
        const first = run.attempts('primary')[0]?.at ?? 0
        const back = run.attempts('primary').find(({ at }) => at - first >= down)
        return [atMost('s to the return', back ? Math.round((back.at - first - down) / 1_000) : 999, 30)]
      },
    },
    {
      id: 'e02',
      title: 'one probe at a time',
      source: 'https://learn.microsoft.com/en-us/azure/architecture/patterns/circuit-breaker',
      styles: ['chat'],
      ideal: 'answer',
      script: () => ({
        fault: 'slow=300',
        error: { status: 503, type: 'server_error', code: 'overloaded', message: 'Overloaded.' },
      }),
      drive: (run) => sequence(150, 200 * Math.max(0.4, scale), () => run.ask()),
      checks: (run) => {
        const attempts = run.attempts('primary')
        const later = attempts.filter(({ at }) => at - (attempts[0]?.at ?? 0) > 8_000 * Math.max(0.5, scale))
        return [advisory(atMost('probes at the same time', atOnceIn(later), 1))]
      },
      alone: true,
    },
    {
      id: 'e03',
      title: 'fails half of the time',
      source: 'https://github.com/maximhq/bifrost/issues/4005',
      styles: ['chat'],
      ideal: 'answer',
      script: ({ attempt }) => (attempt % 2 === 1 ? BUSY : {}),
      drive: (run) => many(40, 4, () => run.ask()),
      checks: (run) => [atMost('attempts a request', run.attempts().length / 40, 4)],
    },
    ...RECOVERY,
  ]
}

const fellBack: Scenario['script'] = () => BUSY
const last = ({ judged }: Run): Judged['seen'] | undefined => judged.at(-1)?.seen

export const TRUTH: readonly Scenario[] = [
  {
    id: 'f01',
    title: 'the model that answered is named',
    source: `${FAILOVERBENCH} (S16)`,
    ideal: 'answer',
    script: fellBack,
    checks: (run) => [
      {
        name: 'the model is that of the fallback',
        ok: last(run)?.model.includes('fs-ok') ?? false,
        found: last(run)?.model ?? '',
      },
    ],
  },
  {
    id: 'f02',
    title: 'the usage is that of the attempt that answered',
    source: `${FAILOVERBENCH} (S16)`,
    ideal: 'answer',
    script: fellBack,
    checks: (run) => {
      const usage = last(run)?.usage
      const isMissing = !usage || usage.output === 0
      const { input, output } = USAGE.backup
      return [
        {
          name: 'the usage is not wrong',
          ok: isMissing || (usage.input === input && usage.output === output),
          found: JSON.stringify(usage ?? null),
        },
        advisory({ name: 'the usage is stated', ok: !isMissing }),
      ]
    },
  },
  {
    id: 'f03',
    title: "an error in the client's shape",
    source: 'https://platform.claude.com/docs/en/api/errors#error-shapes',
    ideal: 'error',
    script: refusal('invalid_value', 'The value of temperature is invalid.'),
    fallback: 'refuses',
    checks: (run) => [
      { name: 'type and message in their place', ok: last(run)?.hasShape ?? false },
      { name: 'status 400', ok: last(run)?.status === 400, found: last(run)?.status ?? 0 },
      advisory({ name: "the vendor's reason is there", ok: /temperature/.test(last(run)?.error ?? '') }),
    ],
  },
  {
    id: 'f04',
    title: 'hints for the retries of SDKs',
    source: 'https://www.rfc-editor.org/rfc/rfc6585#section-4',
    ideal: 'error',
    script: () => LIMITED(7),
    fallback: 'limited',
    checks: (run) => [
      {
        name: 'a status that SDKs retry',
        ok: [408, 409, 429, 500, 502, 503, 504, 529].includes(last(run)?.status ?? 0),
        found: last(run)?.status ?? 0,
      },
      advisory({ name: 'status 429', ok: last(run)?.status === 429, found: last(run)?.status ?? 0 }),
      advisory(
        atLeast(
          'Retry-After',
          Number(last(run)?.headers['retry-after'] ?? Number(last(run)?.headers['retry-after-ms'] ?? 0) / 1_000),
          1,
        ),
      ),
    ],
  },
  {
    id: 'f05',
    title: 'no secret and no address in an error',
    source: 'https://github.com/BerriAI/litellm/issues/15799',
    ideal: 'error',
    script: BAD_KEY,
    fallback: 'badkey',
    checks: (run) => [addressOf(run)],
  },
  {
    id: 'f06',
    title: 'too long: a larger window',
    source: `${FAILOVERBENCH} (S12)`,
    ideal: 'answer',
    script: ({ style }) => ({
      error:
        style === 'messages'
          ? {
              status: 400,
              type: 'invalid_request_error',
              code: '',
              message: 'prompt is too long: 209631 tokens > 200000 maximum',
            }
          : {
              status: 400,
              type: 'invalid_request_error',
              code: 'context_length_exceeded',
              message:
                "This model's maximum context length is 8192 tokens. However, your messages resulted in 9631 tokens.",
            },
    }),
    checks: (run) => [bounded(run, 1)],
  },
]

const p99 = (found: readonly Judged[]): number =>
  found
    .map(({ seen }) => seen.ms)
    .sort((a, b) => a - b)
    .at(Math.floor(found.length * 0.99) - 1) ?? 0

/** Calls of the sibling alone, then beside what `busy` does: the slowest 1 % may not be much slower. */
const beside =
  (busy: (run: Run) => readonly Promise<unknown>[]) =>
  async (run: Run): Promise<void> => {
    const ask = () => run.ask({ model: run.sibling })
    await many(60, 5, ask)
    const waiting = busy(run)
    await pause(300)
    await many(60, 5, ask)
    await Promise.all(waiting)
  }
const besideChecks = (run: Run): readonly Check[] => {
  const [alone, together] = [run.judged.slice(0, 60), run.judged.slice(60, 120)]
  return [advisory(atMost('p99 in ms', p99(together), p99(alone) * 4 + (run.scale < 1 ? 8_000 : 2_500)))]
}

export const isolation = (scale: number): readonly Scenario[] => [
  {
    id: 'g01',
    title: '100 streams, and no word crosses',
    source: 'https://openai.com/index/march-20-chatgpt-outage/',
    styles: ['chat'],
    ideal: 'answer',
    script: () => ({ pace: 5 }),
    drive: (run) => many(100, 100, () => run.ask()),
    alone: true,
  },
  {
    id: 'g02',
    title: 'a dead vendor beside a live one',
    source: 'https://github.com/BerriAI/litellm/issues/26015',
    styles: ['chat'],
    ideal: 'answer',
    script: ({ model }) => (model.includes('sibling') ? {} : { fault: 'silence' }),
    drive: beside((run) => Array.from({ length: 30 }, () => run.ask())),
    checks: besideChecks,
    alone: true,
  },
  {
    id: 'g03',
    title: 'a slow reader beside others',
    source: 'https://nodejs.org/en/learn/modules/backpressuring-in-streams',
    styles: ['chat'],
    ideal: 'answer',
    script: ({ model, nonce }) =>
      model.includes('sibling')
        ? {}
        : { pace: 0, answer: (answer) => ({ ...answer, pieces: piecesOf(hugeWords(nonce, scale)) }) },
    drive: beside((run) => [
      run.ask({ slow: 60 }, (nonce) => ({ text: hugeWords(nonce, scale).join(' '), calls: [] })),
    ]),
    checks: besideChecks,
    alone: true,
  },
  {
    id: 'g04',
    title: 'alive after all',
    source: `${FAILOVERBENCH} (S09, alive_after)`,
    ideal: 'answer',
    script: () => ({}),
    alone: true,
    styles: ['chat'],
    drive: async (run) => {
      for (const style of run.system.styles)
        await run.ask({ style, model: run.model.replace('chat', style), fallback: run.fallback.replace('chat', style) })
    },
  },
]
