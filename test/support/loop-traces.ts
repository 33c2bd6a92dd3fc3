/**
 * Histories of agents for tests of the loop detectors, from seeds: sessions that make progress, and loops with what differs in
 * real ones. Reported loops and reported false stops are their models (earendil-works/pi#9637, NousResearch/hermes-agent#67829,
 * QwenLM/qwen-code#10887; xal-sh/xal#45, macanderson/stella#359, vstorm-co/pydantic-deepagents#208).
 */
import type { Message, Part } from '../../src/core/chat.ts'
import { type Chance, integer, pick } from '../../tools/sim/chance.ts'

export type Use = {
  readonly tool: string
  readonly input: object | string
  readonly result: string
  readonly isError?: boolean
}
/** What happens in a turn: calls, a text without calls, or a text of the user. */
export type Step = { readonly uses: readonly Use[] } | { readonly say: string } | { readonly user: string }

const text = (value: string): Part => ({ type: 'text', at: '', text: value })
const user = (value: string): Message => ({ role: 'user', at: '', content: [text(value)] })
const REMINDER = '<system-reminder>\nThe todo list is empty. Do not mention this to the user.\n</system-reminder>'

let ids = 0
/** The messages that a client adds for a step. */
export const messagesOf = (step: Step, hasReminder = false): readonly Message[] => {
  if ('user' in step) return [user(step.user)]
  if ('say' in step) return [{ role: 'assistant', at: '', content: [text(step.say)] }]
  const calls = step.uses.map((use) => ({ ...use, id: `call_${ids++}` }))
  return [
    {
      role: 'assistant',
      at: '',
      content: calls.map(({ tool, input, id }) => {
        const written = typeof input === 'string' ? input : JSON.stringify(input)
        return { type: 'tool-call', at: '', id, name: tool, arguments: written }
      }),
    },
    ...calls.map(({ id, result, isError }): Message => {
      const failed = isError === undefined ? {} : { isError }
      return { role: 'tool', at: '', callId: id, content: [text(result)], ...failed }
    }),
    ...(hasReminder ? [user(REMINDER)] : []),
  ]
}

const WORDS = [
  'parser',
  'token',
  'router',
  'schema',
  'worker',
  'ledger',
  'cache',
  'stream',
  'header',
  'budget',
  'session',
] as const
const line = (chance: Chance): string => `${pick(chance, WORDS)} ${pick(chance, WORDS)} ${integer(chance, 0, 99_999)}`
const lines = (chance: Chance, most: number): string =>
  Array.from({ length: integer(chance, 1, most) }, () => line(chance)).join('\n')
const path = (chance: Chance): string =>
  `/app/src/${pick(chance, WORDS)}/${pick(chance, WORDS)}-${integer(chance, 0, 999)}.ts`
const clock = (chance: Chance): string =>
  `2026-11-${integer(chance, 10, 28)}T${integer(chance, 10, 23)}:${integer(chance, 10, 59)}:${integer(chance, 10, 59)}Z`

// ── Sessions that make progress ──────────────────────────────────────────────────────────────────────────────────────

const batch = (chance: Chance): readonly Step[] => {
  const kind = integer(chance, 0, 4)
  const first = integer(chance, 0, 1e6)
  return Array.from({ length: integer(chance, 5, 24) }, (_, index): Step => {
    const at = first + index
    const file = path(chance)
    const uses: readonly Use[] = [
      { tool: 'Read', input: { file_path: file }, result: lines(chance, 40) },
      {
        tool: 'Write',
        input: { file_path: file, content: lines(chance, 20) },
        result: `File created successfully at: ${file}`,
      },
      { tool: 'bash', input: { command: `mv img${at}.png out/${at}.png` }, result: '' },
      { tool: 'attach_file', input: { email_id: '1', filename: `${at}.pdf` }, result: 'true' },
      {
        tool: 'update_record',
        input: { id: at, state: 'done' },
        result: '{"success":true,"message":"The operation was completed and the record was stored.","warnings":[]}',
      },
    ]
    const use = uses[kind]
    return { uses: use ? [use] : [] }
  })
}

const building = (chance: Chance): readonly Step[] => {
  const file = path(chance)
  const problem = `FAIL ${file}\n  ${line(chance)}\n  expected ${line(chance)}`
  return Array.from({ length: integer(chance, 2, 10) }, (): readonly Step[] => {
    const isSame = chance() < 0.3
    const result = isSame ? problem : `FAIL ${file}\n  ${line(chance)}\nTime: ${integer(chance, 100, 9_000)} ms`
    const edit = { file_path: file, old_string: line(chance), new_string: line(chance) }
    return [
      { uses: [{ tool: 'Bash', input: { command: 'npm test' }, result: `exit code 1\n${result}`, isError: true }] },
      ...(chance() < 0.4
        ? [
            {
              uses: [
                {
                  tool: 'Read',
                  input: { file_path: file, offset: integer(chance, 0, 900) },
                  result: lines(chance, 30),
                },
              ],
            },
          ]
        : []),
      { uses: [{ tool: 'Edit', input: edit, result: `The file ${file} has been updated.` }] },
    ]
  }).flat()
}

const polling = (chance: Chance): readonly Step[] => {
  const count = integer(chance, 3, 16)
  const kind = integer(chance, 0, 4)
  return Array.from({ length: count }, (_, at): Step => {
    const uses: readonly Use[] = [
      { tool: 'job', input: { id: 'j1' }, result: `{"state":"running","progress":${at * 5},"at":"${clock(chance)}"}` },
      { tool: 'BashOutput', input: { bash_id: 'bash_1' }, result: '<status>running</status>' },
      { tool: 'write_stdin', input: { session_id: 2, chars: '' }, result: '(session 2 still running)' },
      { tool: 'Bash', input: { command: 'sleep 30 && gh run view 7' }, result: 'in_progress' },
      { tool: 'wait_agent', input: { ids: ['a'] }, result: `{"status":"running","waited":"${at * 10}s"}` },
    ]
    const use = uses[kind]
    return { uses: use ? [use] : [] }
  })
}

const paging = (chance: Chance): readonly Step[] => [
  ...Array.from(
    { length: integer(chance, 3, 20) },
    (_, at): Step => ({
      uses: [
        {
          tool: 'list_issues',
          input: { page: at + 1, per_page: 20 },
          result: `[{"id":${at},"title":"${line(chance)}"}]`,
        },
      ],
    }),
  ),
  ...Array.from(
    { length: integer(chance, 1, 3) },
    (_, at): Step => ({
      uses: [{ tool: 'list_issues', input: { page: 90 + at, per_page: 20 }, result: '[]' }],
    }),
  ),
]

const retrying = (chance: Chance): readonly Step[] => {
  const kind = integer(chance, 0, 2)
  const failing = Array.from({ length: integer(chance, 1, 5) }, (_, at): Step => {
    const uses: readonly Use[] = [
      {
        tool: 'Read',
        input: { file_path: path(chance) },
        result: `Error: file not found: ${path(chance)}`,
        isError: true,
      },
      {
        tool: 'bash',
        input: { command: `curl -m ${at + 1} http://localhost:${3000 + at}` },
        result: 'curl: (7) Failed to connect',
      },
      {
        tool: 'shell',
        input: { command: ['python3', `x${at}.py`] },
        result: `Process exited with code 1\n${line(chance)}`,
      },
    ]
    const use = uses[kind]
    return { uses: use ? [use] : [] }
  })
  const other = Array.from(
    { length: integer(chance, 2, 8) },
    (): Step => ({
      uses: [{ tool: 'bash', input: { command: `rg ${pick(chance, WORDS)}` }, result: lines(chance, 10) }],
    }),
  )
  return [...failing, ...other]
}

export const CLEAN = { batch, building, polling, paging, retrying } as const

/** A session of several parts, sometimes with words of its user between them. */
export const cleanSession = (chance: Chance, kind: keyof typeof CLEAN): readonly Step[] => [
  { user: `Please work on ${line(chance)}` },
  ...CLEAN[kind](chance),
  ...(chance() < 0.3 ? [{ user: line(chance) }] : []),
  ...(chance() < 0.5 ? CLEAN[pick(chance, ['batch', 'building', 'retrying'] as const)](chance) : []),
]

// ── Loops ────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** What differs between the turns of real loops. */
export const VARIANTS = [
  ...['plain', 'times in results', 'durations in results', 'a counter as a member', 'descriptions of calls'],
  ...['members in another order', 'white space in arguments', 'parallel calls', 'parallel calls in any order'],
  ...[
    'compaction in the middle',
    'a sub-agent',
    'reminders',
    'long results',
    'short results',
    'results without a flag',
  ],
  ...[
    'a long session before',
    'free text as input',
    'identifiers in results',
    'a counter in the command',
    'texts beside calls',
  ],
] as const
export type Variant = (typeof VARIANTS)[number]

type Turn = { readonly at: number; readonly chance: Chance; readonly variant: Variant }

/** A call as the variant writes it in this turn. */
const varied = (use: Use & { readonly input: object }, { at, chance, variant }: Turn): Use => {
  const { input, result } = use
  switch (variant) {
    case 'times in results':
      return { ...use, result: `[${clock(chance)}] ${result}` }
    case 'durations in results':
      return { ...use, result: `${result}\nDuration: ${integer(chance, 1, 99_999)} ms` }
    case 'a counter as a member':
      return { ...use, input: { ...input, attempt: at } }
    case 'descriptions of calls':
      return { ...use, input: { ...input, description: line(chance) } }
    case 'members in another order':
      return {
        ...use,
        input: Object.fromEntries(at % 2 === 0 ? Object.entries(input) : Object.entries(input).reverse()),
      }
    case 'white space in arguments':
      return { ...use, input: JSON.stringify(input, null, at % 3) }
    case 'long results':
      return { ...use, result: `${result}\n${'0123456789abcdef\n'.repeat(800)}` }
    case 'short results':
      return { ...use, result: result.slice(0, 12) }
    case 'results without a flag':
      return { tool: use.tool, input, result }
    case 'free text as input':
      return { ...use, input: Object.values(input).join(' ') }
    case 'identifiers in results':
      return use.isError ? { ...use, result: `${result} (request ${integer(chance, 1e9, 9e9).toString(16)})` } : use
    case 'a counter in the command':
      return { ...use, input: { ...input, command: `${Object.values(input).join(' ')} # try ${at}` } }
    default:
      return use
  }
}

export const LOOPS = ['repeat', 'cycle', 'same-error', 'no-news', 'say'] as const
export type LoopKind = (typeof LOOPS)[number]

/** Calls of each turn of a loop, and the turns after which its detector could know. */
const loopOf = (
  kind: LoopKind,
  chance: Chance,
): { readonly due: number; readonly uses: (at: number) => Use & { readonly input: object } } => {
  const texts: readonly string[] = Array.from({ length: 6 }, () => lines(chance, 30))
  const files = Array.from({ length: 6 }, () => path(chance))
  const read = (at: number) => ({
    tool: 'Read',
    input: { file_path: files[at] ?? '', limit: 200 },
    result: `${texts[at]}\n${'some text of a file\n'.repeat(100)}`,
  })
  switch (kind) {
    case 'repeat':
      return {
        due: 5,
        uses: () => ({ tool: 'bash', input: { command: 'npm run build', cwd: '/app' }, result: `built ${texts[0]}` }),
      }
    case 'cycle': {
      const length = integer(chance, 2, 4)
      return { due: 4 * length, uses: (at) => read(at % length) }
    }
    case 'same-error':
      return {
        due: 6,
        uses: () => ({
          tool: 'edit_file',
          input: { path: path(chance), text: line(chance) },
          result: `Error: old_string was not found in ${path(chance)}`,
          isError: true,
        }),
      }
    case 'no-news': {
      const order = Array.from({ length: 60 }, () => integer(chance, 0, 5))
      const seen = order.findIndex((_, at) => new Set(order.slice(0, at + 1)).size === new Set(order).size)
      return { due: seen + 13, uses: (at) => read(order[at] ?? 0) }
    }
    case 'say':
      return { due: 4, uses: () => read(0) }
    default:
      throw new Error(`unknown kind ${JSON.stringify(kind satisfies never)}`)
  }
}

/** The history at each request of a session that ends in a loop. `due`: the request at which the loop could be found first. */
export const loopTrace = (kind: LoopKind, variant: Variant, chance: Chance) => {
  const { due, uses } = loopOf(kind, chance)
  const before = variant === 'a sub-agent' ? [{ user: line(chance) }] : cleanSession(chance, 'building')
  const longer =
    variant === 'a long session before' ? Array.from({ length: 8 }, () => cleanSession(chance, 'batch')).flat() : []
  let messages = [...longer, ...before].flatMap((step) => messagesOf(step))
  const histories: (readonly Message[])[] = []
  const compacted = variant === 'compaction in the middle' ? 3 : 0
  for (let at = 0; at < due + 7 + compacted; at++) {
    if (compacted > 0 && at === compacted) messages = [user(`This session is continued. Summary: ${line(chance)}`)]
    const turn = { at, chance, variant }
    if (kind === 'say') {
      const said = 'I have finished the task. Let me know if there is anything else.'
      messages = [...messages, ...messagesOf({ say: said }), user('You called no tool. Go on with the task.')]
    } else {
      const own = varied(uses(at), turn)
      const beside = {
        tool: 'pwd',
        input: {},
        result: '/app',
        ...(own.isError && { result: own.result, isError: true }),
      }
      const isParallel = variant.startsWith('parallel')
      const pair = variant === 'parallel calls in any order' && at % 2 === 1 ? [beside, own] : [own, beside]
      const step = messagesOf({ uses: isParallel ? pair : [own] }, variant === 'reminders')
      const spoken = variant === 'texts beside calls' ? withText(step, line(chance)) : step
      messages = [...messages, ...spoken]
    }
    histories.push(messages)
  }
  return { histories, due: due + compacted }
}

const withText = ([first, ...rest]: readonly Message[], said: string): readonly Message[] =>
  first ? [{ ...first, content: [text(said), ...first.content] }, ...rest] : rest
