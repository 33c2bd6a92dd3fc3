/** Loops are found, and sessions that make progress are not. docs/sessions.md has the figures of this file. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  type CLEAN,
  cleanSession,
  LOOPS,
  type LoopKind,
  loopTrace,
  messagesOf,
  type Step,
  type Use,
  VARIANTS,
} from '../../../test/support/loop-traces.ts'
import { fork } from '../../../tools/sim/chance.ts'
import type { Message } from '../../core/chat.ts'
import type { FoundLoop } from '../../core/loops.ts'
import { agentTurns } from './agent-turns.ts'
import { findLoop } from './find-loop.ts'

const POLLING = ['bashoutput', 'write_stdin', 'wait_agent']

const sizeOf = (messages: readonly Message[]): number => {
  let size = 0
  for (const { content } of messages)
    for (const part of content)
      size += part.type === 'text' ? part.text.length : part.type === 'tool-call' ? part.arguments.length : 0
  return size
}

const look = (messages: readonly Message[]): FoundLoop | null =>
  findLoop(agentTurns({ messages }), {
    isPolling: (tool) => POLLING.includes(tool.toLowerCase()),
    size: sizeOf(messages),
  })

const history = (steps: readonly Step[]): readonly Message[] => steps.flatMap((step) => messagesOf(step))
const times = (count: number, use: (at: number) => Use): readonly Step[] =>
  Array.from({ length: count }, (_, at) => ({ uses: [use(at)] }))
const go = { user: 'Please fix it.' }
const build = { tool: 'bash', input: { command: 'make' }, result: 'make: nothing to be done' }

/** A result of `exec_command`, as Codex 0.169.0 has sent it. The ID is another one each time. */
const fromCodex = (at: number, code: number, output: string): string =>
  `Chunk ID: ${['9e5cbb', 'b97de0', '6d4fd5'][at % 3]}\nWall time: 0.0${at}00 seconds\nProcess exited with code ${code}\nOriginal token count: 3\nOutput:\n${output}\n`

const CASES: readonly (readonly [name: string, steps: readonly Step[], found: string | null])[] = [
  ['two equal calls', [go, ...times(2, () => build)], null],
  ['three equal calls', [go, ...times(3, () => build)], 'suspect repeat bash 3'],
  ['five equal calls', [go, ...times(5, () => build)], 'loop repeat bash 5'],
  ['a new text of the user', [go, ...times(5, () => build), { user: 'Use ninja.' }], null],
  ['and what follows it', [go, ...times(5, () => build), { user: 'Use ninja.' }, ...times(2, () => build)], null],
  ['the same text again', [go, ...times(4, () => build), go, ...times(1, () => build)], 'loop repeat bash 5'],
  ['calls that poll', [go, ...times(19, () => ({ ...build, tool: 'BashOutput' }))], null],
  [
    'calls that poll for ever',
    [go, ...times(20, () => ({ ...build, tool: 'BashOutput' }))],
    'loop repeat BashOutput 20',
  ],
  ['a command that sleeps', [go, ...times(12, () => ({ ...build, input: { command: 'sleep 9; gh run view' } }))], null],
  ['other arguments', [go, ...times(12, (at) => ({ ...build, input: { id: `${at}.txt` }, result: 'true' }))], null],
  ['a result that grows', [go, ...times(12, (at) => ({ ...build, result: `${at} of 12 done` }))], null],
  [
    'the same result with another ID of Codex',
    [go, ...times(5, (at) => ({ ...build, tool: 'exec_command', result: fromCodex(at, 0, 'one line') }))],
    'loop repeat exec_command 5',
  ],
  [
    'the same error of Codex whatever is called',
    [
      go,
      ...times(6, (at) => ({
        tool: 'exec_command',
        input: { cmd: `make part-${at}` },
        result: fromCodex(at, 2, 'make: *** No rule to make target'),
      })),
    ],
    'loop same-error exec_command 6',
  ],
  [
    'another result of Codex',
    [go, ...times(6, (at) => ({ ...build, tool: 'exec_command', result: fromCodex(at, 0, `${at} of 6 done`) }))],
    null,
  ],
  ['two calls in turn', [go, ...times(8, (at) => ({ ...build, tool: at % 2 ? 'a' : 'b' }))], 'loop cycle a 4'],
  [
    'an error whatever is called',
    [
      go,
      ...times(6, (at) => ({
        tool: 'edit',
        input: { path: `/a/${at}` },
        result: `Error: ${at} not found in /a/${at}.ts`,
      })),
    ],
    'loop same-error edit 6',
  ],
  [
    'the same text without a call',
    [go, ...times(0, () => build), ...Array.from({ length: 4 }, () => [{ say: 'Done.' }, { user: 'Go on.' }]).flat()],
    'loop say  4',
  ],
  ['an empty history', [], null],
]

for (const [name, steps, found] of CASES)
  test(`loop: ${name}`, () => {
    const loop = look(history(steps))
    assert.equal(loop && `${loop.level} ${loop.detector} ${loop.tool} ${loop.times}`, found)
  })

test('loop: only what programs add in tags is not a text of the user', () => {
  const reminded = [go, ...times(5, () => build)].flatMap((step) => messagesOf(step, true))
  assert.equal(look(reminded)?.level, 'loop')
  const asked: Message = { role: 'user', at: '', content: [{ type: 'text', at: '', text: '<b>Stop</b>' }] }
  assert.equal(look([...reminded, asked]), null)
})

/** Of 100 traces of each kind: 20 variants, 5 seeds. */
const LEAST: { readonly [kind in LoopKind]: number } = {
  repeat: 95,
  cycle: 100,
  'same-error': 100,
  'no-news': 94,
  say: 100,
}

for (const kind of LOOPS)
  test(`loop: recall of ${kind}, at the latest six turns after it could be known`, () => {
    const missed: string[] = []
    for (const [at, variant] of VARIANTS.entries())
      for (let seed = 0; seed < 5; seed++) {
        const { histories, due } = loopTrace(kind, variant, fork(seed * 100 + at, LOOPS.indexOf(kind)))
        const found = histories.findIndex((messages) => look(messages)?.level === 'loop')
        if (found < 0 || found >= due + 6) missed.push(variant)
      }
    assert.ok(100 - missed.length >= LEAST[kind], `${100 - missed.length}: ${missed.join(', ')}`)
  })

const KINDS = ['batch', 'building', 'polling', 'paging', 'retrying'] as const satisfies readonly (keyof typeof CLEAN)[]

for (const kind of KINDS)
  test(`loop: no false stop in 2,000 sessions (${kind})`, () => {
    const stopped: string[] = []
    for (let seed = 0; seed < 2_000; seed++) {
      const messages: Message[] = []
      for (const step of cleanSession(fork(seed, 7 + KINDS.indexOf(kind)), kind)) {
        messages.push(...messagesOf(step))
        const found = look(messages)
        if (found?.level !== 'loop') continue
        stopped.push(`${seed}: ${JSON.stringify(found)}`)
        break
      }
    }
    assert.deepEqual(stopped, [])
  })
